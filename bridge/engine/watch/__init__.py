"""Tables written by other programs as streams: their rows are read, each once, and pushed."""
