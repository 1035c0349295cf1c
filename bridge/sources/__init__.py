"""Sources of events: CSV, NDJSON and Parquet files, standard input, Arrow tables, frames, and Python pairs.

Each source gives Arrow tables of `ts` and the stream's attributes, in the order of time and in bounded memory. `source`
opens it, a reader (`csv`, `ndjson`, `tables`) gives its rows in blocks, `layout` assigns columns to attributes, `block`
and `convert` convert the columns, `rejects` reports the rows that do not fit, and `merge` merges streams.
"""
