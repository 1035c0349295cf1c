"""Strategies to find the matches of a clause: all agree with the plain machine (`machine`).

Each is faster for some clauses.
"""
