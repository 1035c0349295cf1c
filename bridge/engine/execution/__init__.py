"""The plans of all queries and their execution: one transaction per push, housekeeping, and the log of definitions."""
