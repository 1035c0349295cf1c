"""Runs plans: the catalogue, one transaction per push, delivery, housekeeping, on-demand queries, and `Bridge`."""
