"""The way of events to the execution: they are gathered, put in the order of time, and pushed one after the other."""
