"""Aggregates over windows: the ways to compute them, and when they are reported."""
