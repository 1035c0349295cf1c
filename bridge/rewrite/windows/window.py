"""Windows: the two ways in which a kind of window is rewritten. Each kind registers its own function in its file."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from sqlglot import exp

from bridge import query
from bridge.rewrite.flow import Flow, Need, Selection
from bridge.rewrite.network import Network, rewrite
from bridge.rewrite.plan import Insert, Operator, Purge
from bridge.rewrite.state_tables import add_table, row_columns
from windows.extent import Extent
from windows.sql import column, number, table
from windows.times import NEVER


@functools.singledispatch
def rewrite_window(extent: Extent, node: query.Window, network: Network, need: Need) -> Flow:
    """The flow of a window of this kind over its input."""
    raise TypeError(f"no rewriting for a window of {type(extent).__name__}")


@rewrite.register
def _(node: query.Window, network: Network, need: Need) -> Flow:
    return rewrite_window(node.extent, node, network, need)


def on_arrival(
    node: query.Window,
    network: Network,
    need: Need,
    content: Callable[[Operator, Flow], Flow],
    expires: exp.Expr | None = None,
    size: int | None = None,
) -> Flow:
    """A window whose rows enter on arrival: its arrivals are those of the input, with another expiry.

    Args:
        content: adds the window's tables to an operator; it is called with the arrivals if the content is needed, and
            adds the content to them.
        expires: the expiry of a row, over the input's columns; by default a row does not expire.
        size: the milliseconds for which every row is valid; NEVER: for ever; None: the times differ.
    """
    below = network.rewrite(node.input, Need.ARRIVALS)
    arrivals = dataclasses.replace(
        below,
        arrivals=below.arrivals.project(row_columns(below, number(NEVER) if expires is None else expires)),
        size=size,
        last=None,
        sessions_of=None,
        counted=False,
        jumping=False,
        jump=(),
        late=False,
        variants=None,
        boundaries=None,
    )
    if need is not Need.CONTENT:
        return arrivals

    def build(operator: Operator) -> None:
        operator.arrivals = content(operator, arrivals)

    operator = network.operator(node, build, f"Window({node.extent})")
    assert operator.arrivals is not None
    return operator.arrivals


def as_operator(
    node: query.Window, network: Network, need: Need, build: Callable[[Operator, query.Window, Network, Flow], Flow]
) -> Flow:
    """A window whose rows do not enter on arrival: `build` gives the flow of the rows that enter."""
    below = network.rewrite(node.input, Need.ARRIVALS)

    def built(operator: Operator) -> None:
        operator.result = build(operator, node, network, below)

    return network.give(network.operator(node, built, f"Window({node.extent})"), node, need)


def window_table(
    operator: Operator,
    node: query.Window,
    network: Network,
    arrivals: Flow,
    indexes: Callable[[exp.Select], tuple[tuple[str, ...], ...]],
) -> tuple[str, Selection]:
    """The name and the rows of a new table for the arrivals. `indexes` gives the indexes for its SELECT."""
    name = network.name("window", node)
    rows = arrivals.arrivals.select()
    add_table(operator, name, rows, indexes(rows))
    operator.steps.append(Insert(name, rows))
    return name, Selection.of(table(name), arrivals.arrivals.columns)


def key_columns(node: query.Window) -> dict[str, exp.Expr]:
    """The expressions of PARTITION BY, by the names of their columns in the window's tables."""
    return {f"_part{place}": key for place, key in enumerate(node.partition_by)}


def purge_of(name: str, rows: Selection, key: tuple[str, ...]) -> Purge:
    """A purge of these rows of a table, which the columns `key` identify."""
    return Purge(name, in_rows(key, rows.select(key)))


def in_rows(key: tuple[str, ...], rows: exp.Query) -> exp.Expr:
    """`key IN (rows)`."""
    columns = [column(name) for name in key]
    row = exp.Tuple(expressions=columns) if len(columns) > 1 else columns[0]
    return exp.In(this=row, query=exp.Subquery(this=rows))
