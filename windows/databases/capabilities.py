"""Constants that say what a database can do, or does well; plans and statements depend on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import ClassVar

from sqlglot import exp

from windows.databases.pure_functions import COMMON
from windows.databases.python_aggregates import PythonAggregate


class Capabilities:
    """The capabilities of a database.

    The defaults are those of most databases; a database's own file has its differences.
    """

    chunk_size: ClassVar[int] = 10_000
    """The number of events that pass through the statements at once, at most."""
    arrow_chunk_size: ClassVar[int] = 0
    """The same for events that come as Arrow, divided by the number of queries; the greater of both limits applies."""
    frames_chunk_size: ClassVar[int] = 0
    """The same where all statements take time in proportion to the events, as filters, window frames and row patterns do."""
    ddl_commits: ClassVar[bool] = False
    """True if CREATE TABLE and DROP TABLE commit the current transaction."""
    computed_frame_bounds: ClassVar[bool] = False
    """True if a bound of a window frame may be an expression that is computed per row."""
    asof_joins: ClassVar[bool] = False
    """True if there are ASOF joins, and lists whose values are read by position."""
    prefers_bulk: ClassVar[bool] = False
    """True if the database is built for many events at once: statements then search for rows, and store none early."""
    index_range_joins: ClassVar[bool] = True
    """True if an index serves a range whose bounds are another row's values."""
    nested_loops_only: ClassVar[bool] = False
    """True if every join and correlated sub-query takes time for each pair of rows."""
    fast_sliding_min_max: ClassVar[bool] = False
    """True if MIN and MAX over a sliding frame are as fast as over a growing one, and always right."""
    window_per_brief_push: ClassVar[int] = 8
    """How many times longer than a push a window must be for rows that leave and enter to be faster than all rows."""
    side_by_side_frames: ClassVar[bool] = False
    """True if one statement with the window frames of several queries is faster than a statement per query."""
    pane_sizes: ClassVar[tuple[int, ...]] = ()
    """Rows per pane at each level of pre-aggregation, shortest first; empty: windows are read row by row."""
    has_all_extremes: ClassVar[bool] = True
    """True if there is MIN of values of every type."""
    unlogged_tables: ClassVar[bool] = False
    """True if tables may have no write-ahead log, and TRUNCATE belongs to the current transaction."""
    uses_indexes: ClassVar[bool] = True
    """True if indexes on window tables make statements faster."""
    wide_integer: ClassVar[str | None] = None
    """A type in which sums of BIGINTs do not overflow, needed where the database searches by equations of such sums."""
    eager_constant_folding: ClassVar[bool] = False
    """True if values are computed before conditions are tested, so that `1 / a … WHERE a <> 0` fails."""
    inline_event_values: ClassVar[bool] = False
    """True if conditions with an event's values as literals are faster than a join with a table of one row."""
    purge_every: ClassVar[int] = 1_000
    """Events between two purges: small windows against the cost of purging."""
    insertion_ordered: ClassVar[bool] = False
    """True if a table is read, and numbered by OVER (), in the order in which its rows were inserted."""
    temporary_views: ClassVar[bool] = False
    """True if a temporary view can stand in for a table, and is planned together with the statement that reads it."""
    zero_copy_arrow: ClassVar[bool] = False
    """True if a registered Arrow table is read in place, without a copy."""
    covering_indexes: ClassVar[bool] = False
    """True if an index may hold all columns, so that the table is not read."""
    windows_in_conditions: ClassVar[bool] = True
    """False if conditions that combine window functions with AND and OR are computed wrongly, as MariaDB 10.11 does."""
    sums_in_64_bits: ClassVar[bool] = False
    """True if a sum of whole numbers fails where it passes 64 bits on the way to a smaller total."""
    keeps_collations: ClassVar[bool] = True
    """True if texts that are joined by `||`, and columns of CREATE TABLE AS, have the collation of the columns read."""
    binary_type: ClassVar[str] = "BLOB"
    """The column type of bytes."""
    python_types: ClassVar[Collection[str]] = ()
    """The attribute types whose values it returns and compares as Python: by `=`, and by `<` but for texts and NaN."""
    compensates_sums: ClassVar[bool] = False
    """True if SUM and AVG of doubles make up for what each addition has rounded (Kahan and Babuška)."""
    python_aggregates: ClassVar[Mapping[type[exp.Expr], PythonAggregate]] = MappingProxyType({})
    """Aggregates of integers and doubles that Python computes alike, beside counts, sums, means and extremes."""
    ordered_aggregates: ClassVar[bool] = True
    """True if an aggregate may order its values: `string_agg(v, ',' ORDER BY w)`."""
    lists_aggregates: ClassVar[bool] = False
    """True if `is_aggregate` knows every aggregate function that the database has."""
    ordered_set_functions: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The ordered-set aggregates, `percentile_cont(…) WITHIN GROUP (ORDER BY v)`, by the function whose first argument is `v`."""
    set_functions: ClassVar[Collection[str]] = ()
    """The functions that return several rows for one, in lower case."""
    has_schemas: ClassVar[bool] = True
    """False if a database has one schema only."""
    in_memory_url: ClassVar[str | None] = None
    """The URL of a database of this kind in memory; None if there is none."""
    one_process: ClassVar[bool] = False
    """True if only one process at a time can open a file of the database."""
    version_query: ClassVar[str] = "SELECT version()"
    """The SELECT of the database's version."""
    pure_functions: ClassVar[Collection[str]] = COMMON
    """The functions, in lower case, that compute on their arguments only: an untrusted query may call them."""
    growing_functions: ClassVar[Collection[str]] = ()
    """Such functions whose result may be as large as a given number."""
    stops_regexp: ClassVar[bool] = True
    """False if a regular expression cannot be stopped while it is matched."""
    in_reads_tables: ClassVar[bool] = False
    """True if `x IN name` reads the table of that name."""
