"""Benchmarks beside the paper's experiment (`bridge.bench`): row patterns, replay, Spark, EPL, and costs that may grow."""
