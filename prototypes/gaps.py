# ruff: noqa
"""Prototype: `A Z* B Z* C …` with Z always true and a finite WITHIN, as one SQL statement (DuckDB).

The gaps keep the symbols apart, so a match is one row of each symbol in order, all within the window of A. Two ways:

- **star**: no condition reads a variable other than its own and the first. Then the rows of the last symbol are
  joined to A first (only the latest one counts), then those of the symbol before it (only the latest before that
  counts): `latest[i] = max(x : A < x < latest[i + 1])`. A has a match if and only if `latest[1]` is there. A greedy
  gap takes `latest[i]`, a reluctant one the first row after the one chosen before and before `latest[i + 1]`. Two
  symbols are never joined with each other, so it costs the pairs of A with one symbol in the window.
- **chain**: some condition reads another variable. All ways are joined, the preferred one is the largest by
  (±x1, ±x2, …), minus for a reluctant gap: the order of preference, as each gap is decided before those after it.

Where a symbol has no condition on A but equalities, ASOF JOIN finds its latest row without the pairs.
"""

from __future__ import annotations

import dataclasses

import sqlglot
from sqlglot import exp


@dataclasses.dataclass(frozen=True)
class Gap:
    """Z* before the symbol of the same place (after the first): at least `least` rows and at most `most`."""

    greedy: bool = True
    least: int = 0
    most: int | None = None

    def bounds(self, before: str, after: str) -> list[str]:
        least = f"{after} > {before} + {self.least}" if self.least else f"{after} > {before}"
        return [least] if self.most is None else [least, f"{after} <= {before} + {self.most + 1}"]


@dataclasses.dataclass(frozen=True)
class Query:
    table: str
    ts: str
    tie: tuple[str, ...]
    """The columns that order rows of equal `ts`."""
    within: int
    symbols: tuple[str, ...]
    gaps: tuple[Gap, ...]
    define: dict[str, str]
    columns: tuple[str, ...]
    """The columns that conditions and measures read."""
    measures: tuple[str, ...] = ()
    """SQL over `A.x`, and `A._seq` for the place of its row."""
    partition: tuple[str, ...] = ()
    skip: str = "past last row"
    counted: bool = True
    """Whether places are counted over all rows, as bounds of a gap need it; else over the rows kept only."""
    late: bool = False
    """Not counted before, but afterwards for the rows between first and last, as `m._between` (not with PARTITION BY)."""
    chain: str = "clusters"
    """How SKIP PAST LAST ROW is followed: step by step in all clusters at once, or by doubling."""


@dataclasses.dataclass
class Conditions:
    """The conjuncts of DEFINE, by symbol: those on its own row, and those that read another variable."""

    own: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    pair: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    star: bool = True
    navigation: dict[str, str] = dataclasses.field(default_factory=dict)
    equal: dict[str, bool] = dataclasses.field(default_factory=dict)


def conditions(query: Query) -> Conditions:
    found = Conditions()
    first = query.symbols[0]
    for symbol in query.symbols:
        found.own[symbol], found.pair[symbol] = [], []
        found.equal[symbol] = True
        text = query.define.get(symbol)
        if text is None:
            continue
        tree = sqlglot.parse_one(text, dialect="duckdb")
        for conjunct in tree.flatten() if isinstance(tree, exp.And) else [tree]:
            conjunct = exp.maybe_parse(conjunct.unnest().copy())
            for call in list(conjunct.find_all(exp.Anonymous)):
                if call.name.upper() in ("PREV", "NEXT"):
                    conjunct = _navigate(conjunct, call, symbol, found.navigation)
            read = {column.table or symbol for column in conjunct.find_all(exp.Column)}
            for column in conjunct.find_all(exp.Column):
                column.set("table", exp.to_identifier(column.table or symbol))
            if read <= {symbol}:
                for column in conjunct.find_all(exp.Column):
                    column.set("table", None)
                found.own[symbol].append(f"({conjunct.sql('duckdb')})")
                continue
            found.pair[symbol].append(f"({conjunct.sql('duckdb')})")
            found.equal[symbol] &= isinstance(conjunct, exp.EQ)
            found.star &= read <= {symbol, first}
    return found


def _navigate(tree: exp.Expr, call: exp.Anonymous, symbol: str, navigation: dict[str, str]) -> exp.Expr:
    """PREV and NEXT of the symbol's own row become columns, computed before rows are dropped."""
    column, *offset = call.expressions
    assert column.table in ("", symbol), "PREV of another variable: a column of that variable's own row"
    function = "lag" if call.name.upper() == "PREV" else "lead"
    text = f"{function}({column.name}, {offset[0].sql() if offset else 1}) OVER _all"
    name = next((known for known, other in navigation.items() if other == text), f"_nav{len(navigation)}")
    navigation[name] = text
    replaced = exp.column(name, table=column.table or None)
    if tree is call:
        return replaced
    call.replace(replaced)
    return tree


def rows_kept(query: Query, found: Conditions) -> str:
    """The candidates, with their place, their bucket, and a flag a symbol."""
    order = ", ".join((query.ts, *query.tie))
    partition = f"PARTITION BY {', '.join(query.partition)} " if query.partition else ""
    columns = ", ".join((*query.partition, *query.columns))
    flags = {s: " AND ".join(found.own[s]) or "TRUE" for s in query.symbols}
    marks = ", ".join(f"coalesce({text}, FALSE) AS _is_{symbol}" for symbol, text in flags.items())
    any_of = " OR ".join(f"_is_{symbol}" for symbol in query.symbols)
    bucket = f"{query.ts} // {query.within} AS _bucket, {query.ts} AS _ts"
    over = f"WINDOW _all AS ({partition}ORDER BY {order})"
    navigation = "".join(f", {text} AS {name}" for name, text in found.navigation.items())
    if query.counted:
        place = f"row_number() OVER _all AS _seq{navigation}"
        source = f"SELECT {columns}, {bucket}, {place} FROM {query.table} {over}"
        return f"SELECT * FROM (SELECT *, {marks} FROM ({source})) WHERE {any_of}"
    ties = ", ".join(f"{tie} AS _tie{k}" for k, tie in enumerate(query.tie))
    source = f"SELECT {columns}, {bucket}, {ties}{navigation} FROM {query.table}" + (f" {over}" if navigation else "")
    kept_order = ", ".join(["_ts", *(f"_tie{k}" for k in range(len(query.tie)))])
    place = f"row_number() OVER ({partition}ORDER BY {kept_order}) AS _seq"
    return f"SELECT *, {place} FROM (SELECT *, {marks} FROM ({source})) WHERE {any_of}"


def statement(query: Query, asof: bool = True) -> str:
    found = conditions(query)
    matches = _star(query, found, asof) if found.star and not _bounded(query) else _chain(query, found)
    first, last = query.symbols[0], query.symbols[-1]
    skipped = query.skip == "past last row"
    steps = [f"_rows AS MATERIALIZED ({rows_kept(query, found)})", *matches]
    if skipped:
        steps += _skip(query, first, last) if query.chain == "clusters" else _doubling(query, first, last)
    joins = " ".join(f"JOIN _rows AS {s} ON {_same(query, s, 'm')} AND {s}._seq = m._{s}" for s in query.symbols)
    chosen = "_chosen" if skipped else "_matches"
    if query.late:
        steps.append(_late(query, first, last, chosen))
        chosen = "_late"
    keys = "".join(f"m.{p}, " for p in query.partition)
    measures = ", ".join(query.measures) or ", ".join(f"m._{s}" for s in query.symbols)
    return f"WITH RECURSIVE {', '.join(steps)} SELECT {keys}{measures} FROM {chosen} AS m {joins}"


def _bounded(query: Query) -> bool:
    return any(gap.least or gap.most is not None for gap in query.gaps)


def _same(query: Query, left: str, right: str) -> str:
    return " AND ".join((f"{left}.{p} IS NOT DISTINCT FROM {right}.{p}") for p in query.partition) or "TRUE"


def _window(query: Query, symbol: str, first: str) -> str:
    return (
        f"{_same(query, symbol, first)} AND {symbol}._bucket = {first}._near AND {symbol}._is_{symbol}"
        f" AND {symbol}._ts < {first}._ts + {query.within}"
    )


def _starts(first: str) -> str:
    return f"_{first}_rows AS (SELECT *, unnest([_bucket, _bucket + 1]) AS _near FROM _rows WHERE _is_{first})"


def _star(query: Query, found: Conditions, asof: bool) -> list[str]:
    first, *rest = query.symbols
    steps = [_starts(first)]
    keys = ["_start", *query.partition]
    before = None
    for symbol in reversed(rest):
        pairs = " AND ".join(found.pair[symbol]) or "TRUE"
        bound = "" if before is None else f" AND {symbol}._seq < l._latest_{before}"
        start = f"{first}._seq AS _start{''.join(f', {first}.{p}' for p in query.partition)}"
        held = "" if before is None else f", l.* EXCLUDE ({', '.join(keys)})"
        known = (
            ""
            if before is None
            else f" JOIN _latest_{before} AS l ON l._start = {first}._seq AND {_same(query, 'l', first)}"
        )
        if asof and found.equal[symbol]:
            limit = (
                f"{first}._ts + {query.within} > {symbol}._ts"
                if before is None
                else f"l._latest_{before} > {symbol}._seq"
            )
            latest = f"{symbol}._{'ts' if before is None else 'seq'}"
            side = f"(SELECT * FROM _rows WHERE _is_{symbol}"
            if before is None:  # of rows of one time the last one only
                same = [*query.partition, *sorted(_equal_columns(found, symbol)), "_ts"]
                side += f" QUALIFY _seq = max(_seq) OVER (PARTITION BY {', '.join(same)})"
            body = (
                f"SELECT {start}{held}, {symbol}._seq AS _latest_{symbol} FROM (SELECT * FROM _rows WHERE _is_{first}) AS {first}{known}"
                f" ASOF JOIN {side}) AS {symbol} ON {_same(query, symbol, first)} AND {pairs} AND {limit}"
                f" WHERE {symbol}._seq > {first}._seq"
            )
            assert latest
        else:
            value = (
                ""
                if before is None
                else "".join(f", any_value(l._latest_{s}) AS _latest_{s}" for s in rest[rest.index(before) :])
            )
            body = (
                f"SELECT {start}{value}, max({symbol}._seq) AS _latest_{symbol} FROM _{first}_rows AS {first}{known}"
                f" JOIN _rows AS {symbol} ON {_window(query, symbol, first)} AND {pairs}"
                f" WHERE {symbol}._seq > {first}._seq{bound} GROUP BY ALL"
            )
            if before is not None:
                body = body.replace(
                    " GROUP BY ALL",
                    f" GROUP BY {', '.join([f'{first}._seq', *(f'{first}.{p}' for p in query.partition)])}",
                )
        steps.append(f"_latest_{symbol} AS MATERIALIZED ({body})")
        before = symbol
    return steps + _forward(query, found, first, rest)


def _equal_columns(found: Conditions, symbol: str) -> set[str]:
    columns = set()
    for text in found.pair[symbol]:
        for column in sqlglot.parse_one(text, dialect="duckdb").find_all(exp.Column):
            if column.table == symbol:
                columns.add(column.name)
    return columns


def _forward(query: Query, found: Conditions, first: str, rest: list[str]) -> list[str]:
    """From the latest rows to the rows taken."""
    steps = []
    chosen = [f"_start AS _{first}"]
    source = f"_latest_{rest[0]}"
    names = [f"_latest_{s}" for s in rest]
    for place, (symbol, gap) in enumerate(zip(rest, query.gaps, strict=True)):
        if gap.greedy:
            chosen.append(f"_latest_{symbol} AS _{symbol}")
            continue
        left = f"_{rest[place - 1]}_taken" if place else "_start"
        left = left if place == 0 or not query.gaps[place - 1].greedy else f"_latest_{rest[place - 1]}"
        bound = f" AND {symbol}._seq < l._latest_{rest[place + 1]}" if place + 1 < len(rest) else ""
        pairs = " AND ".join(found.pair[symbol]) or "TRUE"
        group = ", ".join(f"l.{name}" for name in ["_start", *query.partition, *names])
        steps.append(
            f"_first_{symbol} AS MATERIALIZED (SELECT {group}, min({symbol}._seq) AS _{symbol}_taken"
            f" FROM {source} AS l JOIN _{first}_rows AS {first} ON {first}._seq = l._start AND {_same(query, first, 'l')}"
            f" JOIN _rows AS {symbol} ON {_window(query, symbol, first)} AND {pairs}"
            f" WHERE {symbol}._seq > l.{left}{bound} GROUP BY {group})"
        )
        source = f"_first_{symbol}"
        names.append(f"_{symbol}_taken")
        chosen.append(f"_{symbol}_taken AS _{symbol}")
    keys = "".join(f", {p}" for p in query.partition)
    steps.append(f"_matches AS MATERIALIZED (SELECT {', '.join(chosen)}{keys} FROM {source})")
    return steps


def _chain(query: Query, found: Conditions) -> list[str]:
    """Here the later rows stand in two buckets, their own and the one before, where A may be."""
    first, *rest = query.symbols
    source = f"(SELECT * FROM _rows WHERE _is_{first}) AS {first}"
    before = first
    for symbol, gap in zip(rest, query.gaps, strict=True):
        between = " AND ".join(gap.bounds(f"{before}._seq", f"{symbol}._seq"))
        pairs = " AND ".join(found.pair[symbol]) or "TRUE"
        side = f"(SELECT *, unnest([_bucket - 1, _bucket]) AS _near FROM _rows WHERE _is_{symbol}) AS {symbol}"
        window = f"{symbol}._near = {first}._bucket AND {symbol}._ts < {first}._ts + {query.within}"
        source += f" JOIN {side} ON {_same(query, symbol, first)} AND {window} AND {between} AND {pairs}"
        before = symbol
    preferred = ", ".join(f"{'' if gap.greedy else '-'}{s}._seq" for s, gap in zip(rest, query.gaps, strict=True))
    group = ", ".join([f"{first}._seq", *(f"{first}.{p}" for p in query.partition)])
    keys = "".join(f", {first}.{p}" for p in query.partition)
    best = f"SELECT {first}._seq AS _start{keys}, max([{preferred}]) AS _best FROM {source} GROUP BY {group}"
    chosen = ", ".join(f"abs(_best[{k}]) AS _{s}" for k, s in enumerate(rest, 1))
    plain = "".join(f", {p}" for p in query.partition)
    return [f"_matches AS MATERIALIZED (SELECT _start AS _{first}{plain}, {chosen} FROM ({best}))"]


def _skip(query: Query, first: str, last: str) -> list[str]:
    """SKIP PAST LAST ROW: a match that begins after all before it have ended is kept whatever they are, so it opens a
    cluster of its own; within the clusters all chains are followed at once."""
    by = f"PARTITION BY {', '.join(query.partition)} " if query.partition else ""
    keys = "".join(f", {p}" for p in query.partition)
    same = " AND ".join(f"n.{p} IS NOT DISTINCT FROM c.{p}" for p in query.partition) or "TRUE"
    return [
        f"_ends AS (SELECT *, max(_{last}) OVER ({by}ORDER BY _{first} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        f" AS _reached FROM _matches)",
        f"_clusters AS MATERIALIZED (SELECT *, count(*) FILTER (_reached IS NULL OR _reached < _{first}) OVER ({by}ORDER BY _{first})"
        f" AS _cluster FROM _ends)",
        f"_walk AS (SELECT _cluster{keys}, min(_{first}) AS _at FROM _clusters GROUP BY ALL UNION ALL"
        f" SELECT c._cluster{''.join(f', c.{p}' for p in query.partition)}, min(n._{first}) FROM _walk AS c"
        f" JOIN _clusters AS h ON h._cluster = c._cluster AND h._{first} = c._at AND {same.replace('n.', 'h.')}"
        f" JOIN _clusters AS n ON n._cluster = c._cluster AND {same} AND n._{first} > h._{last} GROUP BY ALL)",
        f"_chosen AS (SELECT n.* FROM _clusters AS n JOIN _walk AS c ON n._{first} = c._at AND {same})",
    ]


def _doubling(query: Query, first: str, last: str) -> list[str]:
    """From each match to the next one that may follow it, then 2, 4, 8 … matches on; whatever is reached from the
    first one of a partition is kept. So many rounds that a chain may have a million matches."""
    by = f"PARTITION BY {', '.join(query.partition)} " if query.partition else ""
    # ids of their own, so that partitions need no further keys
    steps = [
        f"_numbered AS MATERIALIZED (SELECT *, row_number() OVER (ORDER BY {', '.join((*query.partition, '_' + first))}) AS _n,"
        f" row_number() OVER ({by}ORDER BY _{first}) = 1 AS _root FROM _matches)",
        f"_jump0 AS MATERIALIZED (SELECT m._n, n._n AS _to FROM _numbered AS m ASOF JOIN _numbered AS n"
        f" ON {_same(query, 'n', 'm')} AND m._{last} < n._{first})",
    ]
    rounds = 20
    for k in range(1, rounds):
        steps.append(
            f"_jump{k} AS MATERIALIZED (SELECT a._n, b._to FROM _jump{k - 1} AS a JOIN _jump{k - 1} AS b ON b._n = a._to)"
        )
    steps.append(f"_reached{rounds} AS MATERIALIZED (SELECT _n FROM _numbered WHERE _root)")
    for k in reversed(range(rounds)):
        steps.append(
            f"_reached{k} AS MATERIALIZED (SELECT _n FROM _reached{k + 1} UNION ALL"
            f" SELECT j._to FROM _reached{k + 1} AS r JOIN _jump{k} AS j ON j._n = r._n)"
        )
    return [*steps, "_chosen AS (SELECT m.* FROM _numbered AS m JOIN _reached0 USING (_n))"]


def _late(query: Query, first: str, last: str, chosen: str) -> str:
    """The rows between the first and the last of a match lie in two buckets: no row needs a place for that."""
    order = ", ".join((query.ts, *query.tie))
    ends = lambda x: ", ".join([f"{x}._ts", *(f"{x}._tie{k}" for k in range(len(query.tie)))])  # noqa: E731
    ranges = (
        f"SELECT m.*, f._bucket AS _from, ROW({ends('f')}) AS _lower, ROW({ends('l')}) AS _upper FROM {chosen} AS m"
        f" JOIN _rows AS f ON f._seq = m._{first} JOIN _rows AS l ON l._seq = m._{last}"
    )
    near = f"SELECT *, unnest([_from, _from + 1]) AS _near FROM ({ranges})"
    return (
        f"_late AS (SELECT r.* EXCLUDE (_from, _lower, _upper, _near), count(*) AS _between FROM ({near}) AS r"
        f" JOIN (SELECT {query.ts} // {query.within} AS _bucket, ROW({order}) AS _place FROM {query.table}) AS z"
        f" ON z._bucket = r._near AND z._place > r._lower AND z._place < r._upper GROUP BY ALL)"
    )
