"""Optimisation rules: each maps a statement to an equal one that runs faster."""
