"""What `cepbridge watch` runs: the bridge, where its results go, and what is said of it."""
