"""Operators over the rows of one event or instant: order, rate, previous rows, lists."""
