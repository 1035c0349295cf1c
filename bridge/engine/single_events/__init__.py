"""Events that are pushed alone: their plans, and what of windows, patterns and totals is held in memory for them."""
