"""Single events: the plans for events that are pushed alone, and what this process computes for them."""
