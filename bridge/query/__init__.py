"""The logical form of queries: query objects, expressions, scripts, and their text.

A query is a tree of frozen dataclasses. `str(query)` is its text in the bridge's SQL.
"""

from bridge.query import text as text  # registers how nodes are written
from bridge.query.epl_columns import Enumeration, PreviousRow, SubqueryColumn
from bridge.query.epl_output import OrderLimitDistinct, OutputEvery, RStream, Snapshot, Throttle
from bridge.query.epl_patterns import EagerMatch, Occurrence, TemporalMatch
from bridge.query.epl_state import (
    Action,
    Change,
    ChangedWindow,
    ChangeTable,
    Deletion,
    OnSelect,
    SetVariables,
    StateTable,
    Variable,
    WindowWithDeletions,
)
from bridge.query.expressions import avg, call, col, count, first, last, lit, max, min, scalar, stddev, sum
from bridge.query.match import Definition, Match
from bridge.query.nodes import (
    Aggregate,
    Correlate,
    Filter,
    Map,
    MatchRecognize,
    Node,
    Output,
    Relation,
    Stream,
    Union,
    Window,
    source_name,
    walk,
    without_filters,
    without_window,
)
from bridge.query.row_pattern import PerMatch, RowPattern, Skip
from bridge.query.scripts import IntoTable, MultiFilter, ReadSQL, Script, Statement, UpdateSQL

__all__ = [
    "Action",
    "Aggregate",
    "Change",
    "ChangeTable",
    "ChangedWindow",
    "Correlate",
    "Definition",
    "Deletion",
    "EagerMatch",
    "Enumeration",
    "Filter",
    "IntoTable",
    "Map",
    "Match",
    "MatchRecognize",
    "MultiFilter",
    "Node",
    "Occurrence",
    "OnSelect",
    "OrderLimitDistinct",
    "Output",
    "OutputEvery",
    "PerMatch",
    "PreviousRow",
    "RStream",
    "ReadSQL",
    "Relation",
    "RowPattern",
    "Script",
    "SetVariables",
    "Skip",
    "Snapshot",
    "StateTable",
    "Statement",
    "Stream",
    "SubqueryColumn",
    "TemporalMatch",
    "Throttle",
    "Union",
    "UpdateSQL",
    "Variable",
    "Window",
    "WindowWithDeletions",
    "avg",
    "call",
    "col",
    "count",
    "first",
    "last",
    "lit",
    "max",
    "min",
    "scalar",
    "source_name",
    "stddev",
    "sum",
    "walk",
    "without_filters",
    "without_window",
]
