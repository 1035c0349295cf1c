"""Replay on this machine: scripts, slices of the history on all cores, results in memory or in files."""
