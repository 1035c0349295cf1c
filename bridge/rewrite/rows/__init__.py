"""Operators over results row by row: order, rate, previous rows, lists."""
