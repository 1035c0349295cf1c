"""SQL's OVER, which is refused with advice on the window that gives its value here."""

from __future__ import annotations

from sqlglot import exp

from windows.times import UNITS


def over_translated(node: exp.Window) -> str:
    """The reason why OVER is refused, and what gives its value for each event.

    >>> import sqlglot
    >>> print(over_translated(sqlglot.parse_one("LAG(v) OVER (PARTITION BY k ORDER BY ts)")))
    OVER is not supported: SELECT LAST(v, 1) … FROM s WINDOW(PARTITION BY k ROWS 2) GROUP BY k gives it for each event, ...
    """
    keys = ", ".join(key.sql() for key in node.args.get("partition_by") or [])
    part, group = f"PARTITION BY {keys} " * bool(keys), f" GROUP BY {keys}" * bool(keys)
    of = node.this
    if isinstance(of, (exp.RowNumber, exp.Rank, exp.DenseRank)):
        return (
            f"OVER is not supported: s WINDOW({part}FIRST ROWS 1) has the first row{' of each key' * bool(keys)}, and "
            f"ARRAY_AGG(*) over s WINDOW({part}ROWS 5 ORDER BY v DESC) the five greatest"
        )
    if isinstance(of, exp.Lag):
        back = int(of.args["offset"].name) if isinstance(of.args.get("offset"), exp.Literal) else 1
        value, extent = f"LAST({of.this.sql()}, {back})", f"{part}ROWS {back + 1}"
    else:
        value, extent = of.sql(), _extent(node.args.get("spec"), part)
    return (
        f"OVER is not supported: SELECT {value} … FROM s WINDOW({extent}){group} gives it for each event, "
        "LAST(v) a value of it"
    )


def _extent(spec: exp.Expr | None, part: str) -> str:
    """The window that corresponds to the frame of OVER."""
    start = None if spec is None else spec.args.get("start")
    if isinstance(start, exp.Literal):
        return f"{part}ROWS {int(start.name) + 1}"
    if isinstance(start, exp.Interval):
        unit = start.text("unit").upper()
        if start.name.isdigit() and unit in UNITS:
            return f"RANGE {int(start.name) * UNITS[unit] + 1} MS"  # both ends of the frame are included
    return "UNBOUNDED"
