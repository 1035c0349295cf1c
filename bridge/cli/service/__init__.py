"""The service of `cepbridge watch`: the bridge, the destinations of its results, and reports on it."""
