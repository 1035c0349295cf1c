"""Matching many rows at once, over numpy arrays: the same matches as those of `nfa.threads`."""
