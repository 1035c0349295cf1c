"""Row patterns and patterns in time as operators of a plan."""
