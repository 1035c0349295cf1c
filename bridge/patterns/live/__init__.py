"""Row patterns over streams: machines whose state is in tables."""
