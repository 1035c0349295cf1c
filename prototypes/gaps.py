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
    """Whether places are counted over all rows: for COUNT(Z) or bounds of a gap; else over the rows kept."""


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
    extra = "".join(f", {name}" for name in found.navigation)
    if query.counted or query.partition or found.navigation:
        place = f"row_number() OVER _all AS _seq{navigation}"
        source = f"SELECT {columns}, {bucket}, {place} FROM {query.table} {over}"
        return f"SELECT * FROM (SELECT *, {marks} FROM ({source})) WHERE {any_of}"
    inner = f"SELECT {columns}, {bucket}, {marks}{extra}{''.join(f', {t}' for t in query.tie)} FROM {query.table}"
    return f"SELECT *, row_number() OVER (ORDER BY _ts, {', '.join(query.tie)}) AS _seq FROM ({inner}) WHERE {any_of}"


def statement(query: Query, asof: bool = True) -> str:
    found = conditions(query)
    matches = _star(query, found, asof) if found.star and not _bounded(query) else _chain(query, found)
    first, last = query.symbols[0], query.symbols[-1]
    skipped = "past last row" == query.skip
    steps = [f"_rows AS MATERIALIZED ({rows_kept(query, found)})", *matches]
    if skipped:
        steps += _skip(query, first, last)
    joins = " ".join(f"JOIN _rows AS {s} ON {_same(query, s, 'm')} AND {s}._seq = m._{s}" for s in query.symbols)
    chosen = "_chosen" if skipped else "_matches"
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
        known = "" if before is None else f" JOIN _latest_{before} AS l ON l._start = {first}._seq AND {_same(query, 'l', first)}"
        if asof and found.equal[symbol]:
            limit = f"{first}._ts + {query.within} > {symbol}._ts" if before is None else f"l._latest_{before} > {symbol}._seq"
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
            value = "" if before is None else "".join(f", any_value(l._latest_{s}) AS _latest_{s}" for s in rest[rest.index(before) :])
            body = (
                f"SELECT {start}{value}, max({symbol}._seq) AS _latest_{symbol} FROM _{first}_rows AS {first}{known}"
                f" JOIN _rows AS {symbol} ON {_window(query, symbol, first)} AND {pairs}"
                f" WHERE {symbol}._seq > {first}._seq{bound} GROUP BY ALL"
            )
            if before is not None:
                body = body.replace(" GROUP BY ALL", f" GROUP BY {', '.join([f'{first}._seq', *(f'{first}.{p}' for p in query.partition)])}")
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
    first, *rest = query.symbols
    source = f"_{first}_rows AS {first}"
    near = f"{first}._near"
    before = first
    for symbol, gap in zip(rest, query.gaps, strict=True):
        window = _window(query, symbol, first).replace(near, f"{first}._near" if symbol == rest[0] else "")
        if symbol != rest[0]:
            window = _window(query, symbol, first).replace(f"{symbol}._bucket = {near}", f"{symbol}._bucket IN ({first}._bucket, {first}._bucket + 1)")
            window = f"{symbol}._bucket - {first}._bucket = _n_{symbol}.d AND " + window
            source += f" CROSS JOIN (VALUES (0), (1)) AS _n_{symbol}(d)"
        between = " AND ".join(gap.bounds(f"{before}._seq", f"{symbol}._seq"))
        pairs = " AND ".join(found.pair[symbol]) or "TRUE"
        source += f" JOIN _rows AS {symbol} ON {window} AND {between} AND {pairs}"
        before = symbol
    preferred = ", ".join(f"{'' if gap.greedy else '-'}{s}._seq" for s, gap in zip(rest, query.gaps, strict=True))
    group = ", ".join([f"{first}._seq", *(f"{first}.{p}" for p in query.partition)])
    keys = "".join(f", {first}.{p}" for p in query.partition)
    best = f"SELECT {first}._seq AS _start{keys}, max([{preferred}]) AS _best FROM {source} GROUP BY {group}"
    chosen = ", ".join(f"abs(_best[{k}]) AS _{s}" for k, s in enumerate(rest, 1))
    plain = "".join(f", {p}" for p in query.partition)
    return [_starts(first), f"_matches AS MATERIALIZED (SELECT _start AS _{first}{plain}, {chosen} FROM ({best}))"]


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
