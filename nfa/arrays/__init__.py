"""Matching over numpy arrays of many rows; finds the same matches as `nfa.threads`."""
