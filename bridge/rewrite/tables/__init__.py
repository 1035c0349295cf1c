"""Operators that change tables, set variables, and read or write data stores."""
