"""From query objects to SQL: one operator a file, each registering how its node becomes a flow of rows."""

from bridge.flow import Flow, Need
from bridge.rewrite.network import Network, Source

__all__ = [
    "Flow",
    "Need",
    "Network",
    "Source",
    "aggregate",
    "arrange",
    "assign",
    "change",
    "changing",
    "correlate",
    "eager",
    "enumerate",
    "gathered",
    "jumping",
    "lookup",
    "match",
    "prior",
    "recognize",
    "rstream",
    "simple",
    "snapshot",
    "stores",
    "stream",
    "temporal",
]
