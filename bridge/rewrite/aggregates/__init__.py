"""Aggregates over windows: the methods that compute them, and when they are reported."""
