"""One file per kind of window: the rows that enter it, and when they leave."""
