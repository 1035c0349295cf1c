"""From history to live: a bridge gets the state that the history would have left.

The state depends only on the events that later results look back at. So the newest events are pushed into the bridge.
Their results are not delivered, as the replay gives them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from bridge.engine.bridge import Bridge
from bridge.engine.session import session_of
from bridge.errors import BridgeError
from bridge.spark.columns import TIME
from bridge.spark.piecewise import Replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bridge.spark.events import Events

ROWS_AT_ONCE = 1_000_000
"""The number of events that are collected at once."""


def go_live(replay: Replay, cep: Bridge) -> None:
    """Creates the queries in a bridge, with their state at the end of the history.

    Raises BridgeError for a bridge that has seen later events, or that reorders events (`lateness`).
    """
    if replay.job.relations:
        raise BridgeError("relations= does not go with into=: create the tables in the database of that bridge")
    if session_of(cep).reorders:
        raise BridgeError(
            "history cannot go into a bridge with lateness: its newest events would wait, and be reported twice"
        )
    with session_of(cep).receiving_history():
        _continue(replay, cep)


def _continue(replay: Replay, cep: Bridge) -> None:
    """Creates the queries, and pushes the events that they may look back at."""
    history = replay.job.history
    if cep.now is not None and cep.now > history.first:
        raise BridgeError(f"the bridge is already at {cep.now}, but the history begins at {history.first}")
    replay.job.install(cep)
    for tables in _newest(replay):
        cep.push_tables(tables)
    if history.count and (cep.now is None or history.last > cep.now):
        cep.advance_time(history.last)


def _newest(replay: Replay) -> Iterator[dict[str, pa.Table]]:
    """The events that later results may look back at, in chunks, by stream."""
    backs = [each.look_back for each in replay.job.partitionings.values()]
    bounded = [back for back in backs if back is not None]
    history = replay.job.history_with_quantiles
    since = history.first if len(bounded) < len(backs) else history.last - max(bounded, default=0) - 1
    times = [at for at in history.quantiles if at > since]
    every = max(1, len(history.quantiles) * ROWS_AT_ONCE // max(history.count, 1))
    bounds = [since, *sorted(set(times[every::every])), history.last + 1]
    for first, after in itertools.pairwise(bounds):
        tables = {events.stream: _table(events, first, after) for events in replay.job.events}
        yield {name: table for name, table in tables.items() if table.num_rows}


def _table(events: Events, first: int, after: int) -> pa.Table:
    from pyspark.sql import functions as F  # noqa: N812

    from bridge.spark.events import FILE, ROW

    frame: DataFrame = events.frame.where((F.col(TIME) >= first) & (F.col(TIME) < after))
    rows = frame.orderBy(TIME, FILE, ROW).select(*events.columns).toArrow()
    table: pa.Table = events.layout.conform(pa.Table.from_arrays(rows.columns, names=events.layout.columns))
    return table
