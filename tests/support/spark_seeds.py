"""Random queries of several seeds in one history, to be replayed at once: each has streams, tables and names of its own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import bridge
from bridge import query as q
from bridge.errors import QueryError
from bridge.history.script import ReplayScript
from bridge.sources.relations import create_relation
from tests.random.test_random_cpl import script_of
from tests.support import epl_histories
from tests.support.generate import Case, random_case
from tests.support.row_pattern_generate import COLUMNS, generate
from tests.unit.spark.test_spark_pieces import History
from tests.unit.spark.test_spark_slices import tellable

Rows = list[tuple[int, tuple[Any, ...]]]
Event = tuple[str, tuple[Any, ...], int]
ALIKE = 48
"""So many seeds of EPL have the same events."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """Queries, what they read, and the `events` in the order in which a history has them.

    `before`: what makes the tables that a script writes; `kept`: these and those that it makes itself. `back`: how far
    results look back, None being without bound.
    """

    script: ReplayScript
    schemas: Mapping[str, str]
    tables: Mapping[str, pa.Table]
    events: tuple[Event, ...]
    relations: Mapping[str, pa.Table] = dataclasses.field(default_factory=dict)
    before: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    back: int | None = None

    @property
    def first(self) -> int:
        """The time of the first event."""
        return min((ts for *_, ts in self.events), default=0)

    @property
    def end(self) -> int:
        """Time passes until then."""
        return max((ts for *_, ts in self.events), default=0) + 5_000 * (self.script.language == "epl")

    def live(self, first: int, end: int) -> tuple[dict[str, Rows], dict[str, list[str]]]:
        """What the queries tell of events pushed one by one, while time passes, and what then stands in the tables."""
        told: dict[str, Rows] = {name: [] for name in self.script.queries}
        with bridge.connect("sqlite://") as cep:
            for name, rows in self.relations.items():
                create_relation(cep.database, name, rows)
            for statement in self.before:
                cep.database.execute(statement)
            for name, schema in self.schemas.items():
                cep.register_stream(name, schema)
            self.script.install(cep, {})
            for name, rows in told.items():
                cep.add_output_processor(name, lambda e, rows=rows: rows.append(_row(e)))
            cep.advance_time(first)
            for stream, values, ts in self.events:
                cep.push_event(stream, list(values), ts)
            cep.advance_time(end)
            cep.finish()
            return told, standing(cep, self.kept)


def standing(cep: bridge.Bridge, tables: Iterable[str]) -> dict[str, list[str]]:
    """The rows of some tables, in one order."""
    return {name: sorted(map(repr, map(tuple, cep.database.fetch(f"SELECT * FROM {name}")))) for name in tables}


def together(several: Iterable[Asked]) -> Asked:
    """All in one: names are apart already."""
    script, found = ReplayScript({}, {}), list(several)
    for one in found:
        script.streams.update(one.script.streams)
        script.queries.update(one.script.queries)
        script.graphs += one.script.graphs
        script.language = one.script.language

    def all_of(name: str) -> dict[str, Any]:
        return {key: value for one in found for key, value in getattr(one, name).items()}

    events = tuple(event for one in found for event in one.events)
    before, kept = (tuple(text for one in found for text in getattr(one, name)) for name in ("before", "kept"))
    return Asked(script, all_of("schemas"), all_of("tables"), events, all_of("relations"), before, kept)


def grouped(several: Iterable[Asked], size: int) -> Iterator[list[Asked]]:
    """So many in each, those together that look back alike: slices begin as much earlier as any of theirs wants."""
    found = sorted(several, key=lambda one: (one.look_back is None, one.look_back or 0))
    yield from (found[at : at + size] for at in range(0, len(found), size))


# The paper's SQL ------------------------------------------------------------------------------------------------------


def sql(seed: int) -> Asked:
    """Trees of all operators; see `generate`."""
    return _of_case(_renamed(dataclasses.replace(random_case(seed), end=None), f"n{seed}"))


def _renamed(case: Case, own: str) -> Case:
    def new(node: q.Node) -> q.Node:
        if isinstance(node, (q.Stream, q.Relation)):
            return dataclasses.replace(node, name=own + node.name)
        return node.with_inputs(new)

    return Case(
        {own + name: schema for name, schema in case.schemas.items()},
        {own + name: new(node) for name, node in case.queries.items()},
        tuple((own + name, values, ts) for name, values, ts in case.events),
        {own + name: what for name, what in case.relations.items()},
    )


def _of_case(case: Case) -> Asked:
    history = History(case)
    backs = [way.look_back for way in history.ways.values()]
    order = list(history.schemas)
    events = sorted(history.case.events, key=lambda event: (event[2], order.index(event[0])))
    schemas = {name: case.schemas[name] for name in order}
    script = ReplayScript.of(dict(case.queries))
    back = None if None in backs else max(back for back in backs if back is not None)
    return Asked(script, schemas, history.tables, tuple(events), history.relations, back=back)


# MATCH_RECOGNIZE ------------------------------------------------------------------------------------------------------


def rows(seed: int) -> Asked | None:
    """A clause over a stream, of one partition or several; None where it cannot be asked of a stream, or fails."""
    rng, example = Random(seed), generate(seed)
    clause = tellable(example.clause, rng) if seed % 3 else dataclasses.replace(example.clause, order_by=())
    if seed % 2:
        clause = dataclasses.replace(clause, partition_by=example.clause.partition_by)
    if not example.rows:
        return None
    given = [rng.choice(example.rows) for _ in range(rng.choice([10, 25, 60]))]
    times = np.cumsum([rng.choice([0, 1, 1, 2, 5]) for _ in given]).tolist()
    stream = f"m{seed}"
    events = tuple((stream, row, ts) for row, ts in zip(given, times, strict=True))
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    try:
        asked = _of_case(Case({stream: schema}, {f"q{seed}": q.MatchRecognize(q.Stream(stream), clause)}, events))
        asked.live(asked.first, asked.end)
    except QueryError:  # refused over a stream, or SKIP leads nowhere
        return None
    return asked


# EPL ------------------------------------------------------------------------------------------------------------------


def epl(seed: int) -> Asked:
    """A statement of any kind; so many seeds have the same events, as the names of streams are the same."""
    chance = Random(f"spark/{seed}")
    events = epl_histories.events(Random(f"spark/events/{seed // ALIKE}"), 24)
    one = epl_histories.asked(chance).numbered(seed)
    text = "; ".join([*epl_histories.DECLARED, *one.first, f"@name('q{seed}') {one.text}"])
    script = ReplayScript.of(text, language="epl")
    tables = {name: table for name, table in epl_histories.tables(events).items() if name in script.reads}
    return Asked(script, {}, tables, tuple((stream, row[1:], row[0]) for stream, row in events if stream in tables))


# CPL ------------------------------------------------------------------------------------------------------------------


def cpl(seed: int) -> Asked:
    """A script that reads tables and writes others or, every other seed, reads what it writes."""
    rng = Random(f"spark/{seed}")
    made = script_of(rng)
    if seed % 2 == 0:
        chosen = [rng.choice(("one", "one_left", "below", "low", "put")) for _ in made.steps]
        made.steps = [(what, *rest[1:]) for what, rest in zip(chosen, made.steps, strict=True)]
    text = made.text if seed % 2 else made.text.replace("INSERT INTO t (", "INSERT INTO noted (")
    names = r"\b(s|t|noted|kept|one|below|add|put|cut|o\d+)\b"
    text = re.sub(names, rf"\g<0>x{seed}", text)
    script = ReplayScript.of(text, language="cpl")
    events = tuple((f"sx{seed}", (k, v), ts) for k, v, ts in made.events)
    columns = list(zip(*((ts, k, v) for k, v, ts in made.events), strict=True))
    kinds = [pa.int64(), pa.string(), pa.int64()]
    table = pa.table([pa.array(v, kind) for v, kind in zip(columns, kinds, strict=True)], names=["ts", "k", "v"])
    before = (
        f"CREATE TABLE tx{seed} (k VARCHAR(20), n BIGINT)",
        f"INSERT INTO tx{seed} VALUES ('ann', 1), ('bob', 2), ('bob', 5)",
        f"CREATE TABLE notedx{seed} (k VARCHAR(20), n BIGINT)",
    )
    kept = tuple(f"{name}x{seed}" for name in ("t", "noted", "kept"))
    return Asked(script, {}, {f"sx{seed}": table}, events, before=before, kept=kept)


def _row(event: bridge.Event) -> tuple[int, tuple[Any, ...]]:
    return event.timestamp, tuple(event.payload.values())
