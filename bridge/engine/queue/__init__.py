"""The way of events to the runner: pushes are gathered, put into the order of time, and run one after the other."""
