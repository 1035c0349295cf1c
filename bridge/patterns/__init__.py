"""Row patterns (SQL:2016, R010): conditions, strategies for bounded rows, live machines for streams."""
