"""Correlations of streams, and sub-queries over other windows."""
