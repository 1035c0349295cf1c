"""On-demand queries: SELECTs over the present state of a bridge."""
