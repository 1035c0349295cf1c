"""Conditions and measures computed outside the database: over numpy arrays, and as Python source."""
