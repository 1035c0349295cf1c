"""The order of events and of results: the columns that Spark sorts by."""

from __future__ import annotations

PIECE, TIME, PLACE = "piece", "ts", "cep:row"
"""Columns of the events of a task: the piece's number, then what orders them."""

MOMENT = ("cep:time", PLACE)
"""What orders the events, as attributes of a stream."""

FIRST = ("cep:first time", "cep:first row")
"""A query's columns of the MOMENT of a match's first row, see `firsts`."""

FIRST_AT, FIRST_PLACE = "cep:first at", "cep:first"

ORDER = ("cep:at", "cep:place", FIRST_AT, FIRST_PLACE, "cep:turn")
"""Columns that order results of several pieces: time, the event that completed it, the first row of a match by its time
and PLACE, and which of these it was."""

SLICE, REPORT = "cep:slice", "cep:report"
"""Columns of the results of slices, see `slices`: which slice, and what it tells of itself."""

BY_TIME, AT_THE_END = -1, 2**63 - 1
"""The `place` of a result that time alone has brought, and of one that the end of the history has."""

STREAM_BITS, FILE_BITS = 54, 34
"""A PLACE has from these bits on the stream's number and the file's; below, the row's place in the file."""

MOST_STREAMS = 1 << 63 - STREAM_BITS
"""So many streams have numbers that fit."""
