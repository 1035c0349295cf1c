"""Replay: history in, results out, with the very queries that run live."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.engine.bridge import Bridge
from bridge.engine.connect import IN_MEMORY, connect
from bridge.engine.session import session_of
from bridge.errors import BridgeError, SourceError
from bridge.history.script import (
    Described,
    Script,
    described_sources,
    refuse_unknown,
    schema_for,
    undeclared,
)
from bridge.sources.arrow import milliseconds

if TYPE_CHECKING:
    from bridge.history.results import Results, Tables
    from bridge.history.slices import Lanes
    from bridge.sources.merge import Chunk
    from bridge.sources.rejects import Rejects
    from bridge.sources.source import Source


def replay(
    source: Any,
    script: Script,
    *,
    database: Any,
    timestamp: str | Mapping[str, str] | None,
    schemas: Mapping[str, Any] | None,
    relations: Mapping[str, Any] | None,
    stores: Mapping[str, Any] | None,
    end: Any,
    out: str | os.PathLike[str] | None,
    into: Bridge | None,
) -> Mapping[str, Any]:
    """The local engine of `bridge.replay`, which says what the arguments mean."""
    from bridge.history.results import Results, Tables

    script.streams.update({name: schema_for(name, schema) for name, schema in (schemas or {}).items()})
    results: Results | Tables = Tables() if out is None else Results(Path(out), "parquet")
    with contextlib.ExitStack() as stack:
        if into is None:
            cep = stack.enter_context(connect(database))
            stack.enter_context(with_relations(cep, relations or {}))
        elif relations:
            raise BridgeError("the bridge that history goes into has tables of its own: create the relations there")
        else:
            cep = into
        for name, target in (stores or {}).items():
            cep.register_datastore(name, target)
        stack.enter_context(results)
        stack.callback(results.detach, cep)
        take_until = None if end is None else milliseconds(end)
        if not isinstance(source, Mapping):
            _push(cep, script, source, results, take_until, into is None)
        else:
            sources = open_sources(script, source, timestamp)
            refuse_unknown(script, cep, sources)
            apart = relations or {} if into is None and database == IN_MEMORY and not stores else None
            lanes = installed(script, cep, sources, results, apart)
            feed(cep, sources, take_until, final=into is None, lanes=lanes)
    return results.tables


def _push(cep: Bridge, script: Script, source: Any, results: Any, end: int | None, final: bool) -> None:
    refuse_unknown(script, cep, ())
    script.install(cep, {})
    results.begin(cep, script.queries)
    results.attach(cep, script.queries)
    cep.push_all(_before(source, end))
    _finish(cep, end, final)


def installed(
    script: Script, cep: Bridge, sources: Mapping[str, Described], results: Tables, relations: Mapping[str, Any] | None
) -> Lanes | None:
    """Creates the queries and has their results taken; gives what replays them on all cores, where that can be.

    It cannot without `relations`, which are all that the bridge's database had before: the database is others', too, then.
    """
    inferred = undeclared(script, sources)
    script.install(cep, inferred)
    results.begin(cep, script.queries)
    if relations is not None:
        from bridge.history.slices import lanes

        if (found := lanes(cep, script, inferred, relations, results.take)) is not None:
            return found
    results.attach(cep, script.queries)
    return None


def open_sources(
    script: Script,
    sources: Mapping[str, Any],
    timestamp: str | Mapping[str, str] | None = None,
    format: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, Source]:
    """Opens the events of each stream; raises UnknownName for a stream that no query reads."""
    from bridge.sources.source import open_source

    described = described_sources(script, sources, timestamp)
    return {
        stream: open_source(stream, what, schema, column, format, note) for stream, what, schema, column in described
    }


def feed(
    cep: Bridge,
    sources: Mapping[str, Source],
    end: int | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int], None] = lambda events: None,
    final: bool = True,
    lanes: Lanes | None = None,
) -> None:
    """Pushes all sources, merged by time, equal times in their order, up to `end`, into `cep` or into `lanes` of it.

    Unless it is `final`, more may come later.

    `progress` is told the number of events so far. A SourceError comes after all that precedes the bad row in time is in.
    """
    from bridge.sources.merge import BYTES, combine, merge, prefetch, take_until

    stretches = merge({name: take_until(s.tables(rejects), end) for name, s in sources.items()})
    if not any(source.waits for source in sources.values()):
        stretches = prefetch(combine(stretches, sources, session_of(cep).sizes.arrow, BYTES))
    if lanes is not None:
        with lanes:
            lanes.feed(_told(stretches, progress), lambda last: _finish(last, end, final))
        return
    for stretch in _told(stretches, progress):
        cep.push_tables(stretch)
    _finish(cep, end, final)


def _told(stretches: Iterator[Chunk], progress: Callable[[int], None]) -> Iterator[Chunk]:
    """The same; `progress` is told of each when the next one is wanted."""
    from bridge.sources.merge import row_count

    count = 0
    for stretch in stretches:
        yield stretch
        count += row_count(stretch)
        progress(count)


def _finish(cep: Bridge, end: int | None, final: bool) -> None:
    if end is not None and (cep.now is None or end > cep.now):
        cep.advance_time(end)
    if final:
        cep.finish()
        _warn_of_letters(cep)


def _warn_of_letters(cep: Bridge) -> None:
    """What did not reach a data store in the end, which a database in memory forgets."""
    from bridge.history.results import counted
    from bridge.stores.outbox import ATTEMPTS

    waiting, dead = min(cep.deliver() for _ in range(ATTEMPTS)), cep.dead_letters()
    if waiting:
        warnings.warn(f"{counted(waiting, 'row')} did not reach data stores", stacklevel=2)
    if dead:
        first = f"{dead[0].store}: {dead[0].reason}"
        warnings.warn(f"{counted(len(dead), 'row')} not taken by data stores; the first: {first}", stacklevel=2)


def _before(events: Iterable[Any], end: int | None) -> Iterator[Any]:
    for event in events:
        try:
            _, _, timestamp = event
        except (TypeError, ValueError):
            raise SourceError(
                f"an event of several streams is (stream, payload, timestamp), not {event!r}; "
                "events of one are given as {'stream': events}"
            ) from None
        if end is not None and milliseconds(timestamp) > end:
            return
        yield event


@contextlib.contextmanager
def with_relations(cep: Bridge, relations: Mapping[str, Any]) -> Iterator[None]:
    """The tables stand in the database as long as the replay runs."""
    from bridge.sources.relations import create_relation, drop_relation

    made: list[str] = []
    try:
        for name, data in relations.items():
            create_relation(cep.database, name, data)
            made.append(name)
        yield
    finally:
        for name in made:
            drop_relation(cep.database, name)
