"""Replay on this machine: pushes a history through a bridge, and collects the results."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.engine.bridge import Bridge
from bridge.engine.connect import IN_MEMORY, connect
from bridge.engine.session import session_of
from bridge.errors import BridgeError, SourceError, quantity
from bridge.history.script import ReplayScript, inferred_schemas, refuse_unknown, schema_for, sources_of
from bridge.sources.arrow import milliseconds

if TYPE_CHECKING:
    from bridge.history.results import ResultTables
    from bridge.history.slices import Workers
    from bridge.sources.merge import Chunk
    from bridge.sources.options import HistoryOptions
    from bridge.sources.rejects import Rejects
    from bridge.sources.source import EventSource


def replay(
    source: Any,
    script: ReplayScript,
    *,
    database: Any,
    reading: HistoryOptions,
    schemas: Mapping[str, Any] | None,
    relations: Mapping[str, Any] | None,
    stores: Mapping[str, Any] | None,
    end: Any,
    out: str | os.PathLike[str] | None,
    into: Bridge | None,
) -> Mapping[str, Any]:
    """`bridge.replay` with `engine="local"`; see there for the arguments."""
    from bridge.history.results import ResultFiles, ResultTables

    _check_options(out, schemas=schemas, relations=relations, stores=stores)
    script.streams.update({name: schema_for(name, schema) for name, schema in (schemas or {}).items()})
    results = ResultTables() if out is None else ResultFiles(Path(out), "parquet")
    with contextlib.ExitStack() as stack:
        if into is None:
            cep = stack.enter_context(connect(database, durable=False))
            stack.enter_context(with_relations(cep, relations or {}))
        elif relations:
            raise BridgeError("relations= does not go with into=: create the tables in the database of that bridge")
        else:
            cep = into
            stack.enter_context(session_of(cep).receiving_history())
        for name, target in (stores or {}).items():
            cep.register_datastore(name, target)
        stack.enter_context(results)
        stack.callback(results.detach, cep)
        last = None if end is None else milliseconds(end)
        if not isinstance(source, Mapping):
            _push(cep, script, _by_time(source) if reading.sort else source, results, last, into is None)
        else:
            sources = open_sources(script, source, reading)
            refuse_unknown(script, cep, sources)
            is_separate = into is None and database == IN_MEMORY and not stores
            workers = install_queries(
                script, cep, sources, results, relations or {} if is_separate else None, is_last=into is None
            )
            feed(cep, sources, last, final=into is None, workers=workers)
    return results.tables


def _check_options(out: object, **mappings: object) -> None:
    """Raises BridgeError if `out` is not a directory, or another argument is not a mapping."""
    for option, value in mappings.items():
        if value is not None and not isinstance(value, Mapping):
            raise BridgeError(f"{option}= is a mapping by names, not {value!r}")
    if out is not None and not isinstance(out, (str, os.PathLike)):
        raise BridgeError(f"out= is a directory, not {out!r}")


def _push(cep: Bridge, script: ReplayScript, source: Any, results: ResultTables, end: int | None, final: bool) -> None:
    """Pushes an iterable of (stream, payload, timestamp)."""
    refuse_unknown(script, cep, ())
    script.install(cep, {})
    results.begin(cep, script.queries)
    results.attach(cep, script.queries)
    cep.push_all(_until(source, end))
    _finish(cep, end, final)


def install_queries(
    script: ReplayScript,
    cep: Bridge,
    sources: Mapping[str, EventSource],
    results: ResultTables,
    relations: Mapping[str, Any] | None,
    is_last: bool = True,
) -> Workers | None:
    """Creates the queries and attaches `results` to them. Returns workers if all cores can compute them.

    `relations`: all tables that the bridge's database had before. None: it may have others; then there are no workers.
    `is_last`: whether no other queries follow, on-demand queries included.
    """
    is_replay = is_last and not any(source.waits for source in sources.values())
    inferred = inferred_schemas(script, sources)
    with session_of(cep).of_replay() if is_replay else contextlib.nullcontext():
        script.install(cep, inferred)
    results.begin(cep, script.queries)
    if relations is not None:
        from bridge.history.slices import workers_for

        if (workers := workers_for(cep, script, inferred, relations, results.take)) is not None:
            return workers
    results.attach(cep, script.queries)
    return None


def open_sources(
    script: ReplayScript,
    sources: Mapping[str, Any],
    options: HistoryOptions,
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, EventSource]:
    """Opens the source of each stream. Raises UnknownName for a stream that no query reads."""
    from bridge.sources.source import open_source

    return {
        stream: open_source(stream, source, schema, reading, note)
        for stream, source, schema, reading in sources_of(script, sources, options)
    }


def feed(
    cep: Bridge,
    sources: Mapping[str, EventSource],
    end: int | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int], None] = lambda events: None,
    final: bool = True,
    workers: Workers | None = None,
) -> None:
    """Pushes the events of all sources up to the timestamp `end` into `cep`, or into the bridges of `workers`.

    Events are merged by time; events with equal timestamps are in the order of `sources`. `progress` is called with the
    number of events so far. Unless `final`, more events may follow later. A SourceError is raised after all events that
    come before the wrong row in time were pushed.
    """
    from bridge.history.file_slices import file_slices
    from bridge.history.slices import End, StateNeeded, slices
    from bridge.sources.merge import BYTES, combine, merge, prefetch, take_until

    if workers is not None:
        at_end = End(end, lambda last: _finish(last, end, final))
        of_file = file_slices(sources, workers.back, end) if workers.without_state else None
        if of_file is not None:
            taken = functools.partial(_note_taken, sources, progress)
            with workers, contextlib.suppress(StateNeeded):
                workers.feed(of_file, at_end, 1, taken)  # the database itself uses all cores
                return
    chunks = merge({name: take_until(source.tables(rejects), end) for name, source in sources.items()})
    if not any(source.waits for source in sources.values()):
        chunks = prefetch(combine(chunks, sources, session_of(cep).sizes.arrow, BYTES))
    if workers is not None and workers.back is not None and of_file is None:
        with workers:
            workers.feed(slices(_with_progress(chunks, progress), sources, workers.back), at_end)
        return
    if workers is not None:
        workers.close()
        workers.take_rest()
    for chunk in _with_progress(chunks, progress):
        cep.push_tables(chunk)
    _finish(cep, end, final)


def _note_taken(sources: Mapping[str, EventSource], progress: Callable[[int], None], part: Any) -> None:
    """Calls `progress` with the number of events up to the end of a slice of files."""
    progress(sum(sources[stream].note_read(rows) for stream, rows in part.read.items()))


def _with_progress(chunks: Iterator[Chunk], progress: Callable[[int], None]) -> Iterator[Chunk]:
    """The same chunks. Before the next one is read, `progress` is called with the number of earlier events."""
    from bridge.sources.merge import row_count

    count = 0
    for chunk in chunks:
        yield chunk
        count += row_count(chunk)
        progress(count)


def _finish(cep: Bridge, end: int | None, final: bool) -> None:
    if end is not None and (cep.now is None or end > cep.now):
        cep.advance_time(end)
    if final:
        cep.finish()
        _warn_of_dead_letters(cep)


def _warn_of_dead_letters(cep: Bridge) -> None:
    """Warns of rows that did not reach their data store, as a database in memory forgets them."""
    from bridge.stores.outbox import ATTEMPTS

    waiting, dead = min(cep.deliver() for _ in range(ATTEMPTS)), cep.dead_letters()
    if waiting:
        warnings.warn(f"{quantity(waiting, 'row')} did not reach data stores", stacklevel=2)
    if dead:
        first = f"{dead[0].store}: {dead[0].reason}"
        warnings.warn(f"{quantity(len(dead), 'row')} not taken by data stores; the first: {first}", stacklevel=2)


def _by_time(events: Iterable[Any]) -> list[Any]:
    """(stream, payload, timestamp) in the order of time; equal timestamps stay in their original order."""
    return sorted(events, key=lambda event: milliseconds(_triple(event)[2]))


def _triple(event: Any) -> tuple[Any, Any, Any]:
    try:
        stream, payload, timestamp = event
    except (TypeError, ValueError):
        raise SourceError(
            f"an event is (stream, payload, timestamp), not {event!r}; "
            "write {'stream': events} for the (payload, timestamp) pairs of one stream"
        ) from None
    return stream, payload, timestamp


def _until(events: Iterable[Any], end: int | None) -> Iterator[Any]:
    """The events up to the timestamp `end`."""
    for event in events:
        timestamp = _triple(event)[2]
        if end is not None and milliseconds(timestamp) > end:
            return
        yield event


@contextlib.contextmanager
def with_relations(cep: Bridge, relations: Mapping[str, Any]) -> Iterator[None]:
    """Creates a table for each relation in the database of the bridge, and drops it afterwards."""
    from bridge.sources.relations import create_relation, drop_relation

    created: list[str] = []
    try:
        for name, data in relations.items():
            create_relation(session_of(cep).database, name, data)
            created.append(name)
        yield
    finally:
        for name in created:
            drop_relation(session_of(cep).database, name)
