"""Random statements of EPL of all kinds over one history: two rows of equal time are in the order of their streams."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence

import pyarrow as pa

from tests.oracles import epl_patterns, epl_statements
from tests.random import test_random_epl_contexts as test_epl_contexts
from tests.random import test_random_epl_statements as test_epl_statements
from tests.support import epl_generate
from tests.support.epl_rows import Row

STREAMS = "SAB"
SCHEMA = "id VARCHAR, v INTEGER, k VARCHAR"
DECLARED = tuple(epl_generate.SCHEMA.format(stream) for stream in STREAMS)


@dataclasses.dataclass(frozen=True)
class Asked:
    """A statement, and what is created before it."""

    text: str
    first: tuple[str, ...] = ()

    def numbered(self, number: int) -> Asked:
        """The same with names of its own: those of contexts, windows and streams are C, W and T."""

        def own(text: str) -> str:
            return re.sub(r"\bcontext C\b|\b[WT]\b", rf"\g<0>{number}", text)

        return Asked(own(self.text), tuple(map(own, self.first)))


def script(several: Sequence[Asked]) -> str:
    """All in one text, the statements named q0, q1, …"""
    found = list(DECLARED)
    for number, one in enumerate(several):
        own = one.numbered(number)
        found += [*own.first, f"@name('q{number}') {own.text}"]
    return "; ".join(found)


def asked(chance: random.Random) -> Asked:
    """One of the kinds, each as often as any other."""
    return chance.choice((_rows, _interval, _batch, _temporal, _patterns, _windows, _both, _context, _chain, _deleted))(
        chance
    )


def events(chance: random.Random, count: int) -> list[tuple[str, Row]]:
    """Events of all streams, in the order in which a history of tables has them."""
    found = [(chance.choice(STREAMS), row) for row in epl_generate.events(chance, count)]
    return sorted(found, key=lambda event: (event[1][0], STREAMS.index(event[0])))


def tables(history: list[tuple[str, Row]]) -> dict[str, pa.Table]:
    """The same as a table a stream."""
    schema = pa.schema([("ts", pa.int64()), ("id", pa.string()), ("v", pa.int32()), ("k", pa.string())])
    found = {}
    for stream in STREAMS:
        rows = [dict(zip(schema.names, row, strict=True)) for name, row in history if name == stream]
        found[stream] = pa.Table.from_pylist(rows, schema)
    return found


def _rows(chance: random.Random) -> Asked:
    return Asked(epl_generate.rows(chance)[0])


def _interval(chance: random.Random) -> Asked:
    return Asked(epl_generate.interval(chance))


def _batch(chance: random.Random) -> Asked:
    return Asked(epl_generate.batch(chance))


def _temporal(chance: random.Random) -> Asked:
    return Asked(epl_generate.temporal(chance))


def _patterns(chance: random.Random) -> Asked:
    text = epl_patterns.statement(chance)[0]
    return Asked(re.sub(r"(\d)000 milliseconds", r"\1 milliseconds", text))


def _windows(chance: random.Random) -> Asked:
    return Asked(test_epl_statements.statement(chance))


def _both(chance: random.Random) -> Asked:
    return Asked(epl_statements.both(chance))


def _context(chance: random.Random) -> Asked:
    context = test_epl_contexts.CONTEXT
    text = test_epl_contexts.asked(chance)
    return Asked(f"context C {text}", (context if " from S" in text else context.replace("k from S, ", ""),))


def _chain(chance: random.Random) -> Asked:
    """What another statement inserts."""
    inserted = "insert into T select * from S(v > 1)"
    text = chance.choice((_rows, _windows, _both))(chance).text
    return Asked(text.replace("from S(v < 4)", "from S").replace("from S", "from T", 1), (inserted,))


def _deleted(chance: random.Random) -> Asked:
    """What stands in a named window that events change."""
    text = chance.choice(("select * from W", "select k, sum(v) as t, count(*) as n from W group by k"))
    change = chance.choice(
        (
            "on A as a delete from W as w where w.v = a.v and w.id != a.id",
            "on A as a update W as w set v = a.v where w.k = a.k",
        )
    )
    return Asked(text, ("create window W#keepall as S", "insert into W select * from S", change))
