"""The way of events to the runner: pushes are gathered, put in order of time, and run one after the other."""
