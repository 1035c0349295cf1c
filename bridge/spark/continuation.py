"""From history to live: a bridge gets the state that the history would have left there.

What results look back at is all that state is made of: the newest events are pushed into the bridge, as many as that is;
nobody hears of their results, which are those of the replay.
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
from bridge.spark.pieces import Replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bridge.spark.events import Events

ROWS_AT_ONCE = 1_000_000
"""Events that come to this process together."""


def go_live(replay: Replay, cep: Bridge) -> None:
    """Creates the queries in a bridge and gives it their state as of the end of the history.

    Raises BridgeError for a bridge that has seen later events, or that keeps events back for others to come before.
    """
    if replay.relations:
        raise BridgeError("relations= does not go with into=: create the tables in the database of that bridge")
    if session_of(cep).reorders:
        raise BridgeError(
            "history cannot go into a bridge with lateness: its newest events would wait, and be told twice"
        )
    history = replay.history
    if cep.now is not None and cep.now > history.first:
        raise BridgeError(f"the bridge is at {cep.now} already: history begins at {history.first}")
    replay.install(cep)
    for tables in _newest(replay):
        cep.push_tables(tables)
    if history.count and (cep.now is None or history.last > cep.now):
        cep.advance_time(history.last)


def _newest(replay: Replay) -> Iterator[dict[str, pa.Table]]:
    """The events that later results may look back at, by stream, in stretches of time."""
    backs = [each.look_back for each in replay.partitionings.values()]
    bounded = [back for back in backs if back is not None]
    history = replay.timed
    since = history.first if len(bounded) < len(backs) else history.last - max(bounded, default=0) - 1
    times = [at for at in history.quantiles if at > since]
    every = max(1, len(history.quantiles) * ROWS_AT_ONCE // max(history.count, 1))
    bounds = [since, *sorted(set(times[every::every])), history.last + 1]
    for first, after in itertools.pairwise(bounds):
        tables = {events.stream: _table(events, first, after) for events in replay.events}
        yield {name: table for name, table in tables.items() if table.num_rows}


def _table(events: Events, first: int, after: int) -> pa.Table:
    from pyspark.sql import functions as F  # noqa: N812

    from bridge.spark.events import FILE, ROW

    frame: DataFrame = events.frame.where((F.col(TIME) >= first) & (F.col(TIME) < after))
    found = frame.orderBy(TIME, FILE, ROW).select(*events.columns).toArrow()
    table: pa.Table = events.layout.conform(pa.Table.from_arrays(found.columns, names=events.layout.columns))
    return table
