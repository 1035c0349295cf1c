"""Operators over the rows of results: order, rate, previous rows, lists."""
