"""Events from files: CSV, NDJSON, Parquet, gz-compressed text, standard input, and from tables, frames and pairs.

Each source gives Arrow tables of `ts` and the stream's attributes, ordered by time, in bounded memory.
"""

from bridge.sources.block import Bad, Checker, Rejects
from bridge.sources.merge import merged
from bridge.sources.source import FORMATS, Source, open_source

__all__ = ["FORMATS", "Bad", "Checker", "Rejects", "Source", "merged", "open_source"]
