"""The process from which Spark forks its Python processes, with the packages of a task already imported.

Importing them takes two seconds, which each new process would need.
"""

import contextlib

from pyspark import daemon, worker

with contextlib.suppress(ModuleNotFoundError):  # a test hides the package: its tasks have to fail, not this process
    import bridge.spark.slices
    import bridge.spark.stream

__all__ = ["bridge", "worker"]

if __name__ == "__main__":
    daemon.manager()
