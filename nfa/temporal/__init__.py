"""Patterns of events in time, EPL's `pattern [ … ]`: a tree of operators, and the machine that runs it."""
