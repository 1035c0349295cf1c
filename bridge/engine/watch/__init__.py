"""Tables that other programs write as streams: their rows are read, each once, and pushed."""
