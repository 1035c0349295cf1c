"""Rows of windows and totals in memory, and the results that this process computes from them for events pushed alone."""
