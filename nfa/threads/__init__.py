"""Matching row by row: the plain machine, which defines the matches of a pattern, and its eager variant."""
