"""Matching row by row: the plain machine, which defines what a match is, and its eager variant."""
