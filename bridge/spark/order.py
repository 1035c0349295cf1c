"""The order of events and of results: the columns that Spark sorts by."""

from __future__ import annotations

PIECE, TIME, PLACE = "piece", "ts", "cep:row"
"""Columns of the events of a task: the piece's number, then what orders them."""

FIRST = "cep:first row"
"""A query's column of the PLACE of a match's first row, see `firsts`."""

ORDER = ("cep:at", "cep:place", "cep:first", "cep:turn")
"""Columns that order results of several pieces: time, the event that completed it, the first row of a match, and which
of these it was."""

SLICE, REPORT, FIRST_AT = "cep:slice", "cep:report", "cep:first at"
"""Columns of the results of slices, see `slices`: which slice, what it tells of itself, the time of a match's first row."""

BY_TIME, AT_THE_END = -1, 2**63 - 1
"""The `place` of a result that time alone has brought, and of one that the end of the history has."""

STREAM_BITS, FILE_BITS = 58, 38
"""A PLACE has from these bits on the stream's number and the file's; below, the row's place in the file."""
