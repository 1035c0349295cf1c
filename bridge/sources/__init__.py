"""Events from files: CSV, NDJSON, Parquet, gz-compressed text, standard input, and from tables, frames and pairs.

Each source gives Arrow tables of `ts` and the stream's attributes, ordered by time, in bounded memory.
"""
