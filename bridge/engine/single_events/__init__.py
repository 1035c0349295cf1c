"""Single events: their plans, and the rows of windows, patterns and totals that are held in memory for them."""
