"""From query objects to SQL: one operator per file, which registers how its node becomes a flow of rows."""

from bridge.rewrite import stateless as stateless
from bridge.rewrite import windows as windows
from bridge.rewrite.aggregates import aggregate as aggregate
from bridge.rewrite.aggregates import snapshot as snapshot
from bridge.rewrite.flow import Flow, Need
from bridge.rewrite.joins import correlate as correlate
from bridge.rewrite.joins import subquery_column as subquery_column
from bridge.rewrite.matching import match as match
from bridge.rewrite.network import NamedSource, Network
from bridge.rewrite.patterns import eager_match as eager_match
from bridge.rewrite.patterns import match_recognize as match_recognize
from bridge.rewrite.patterns import temporal_match as temporal_match
from bridge.rewrite.rows import enumeration as enumeration
from bridge.rewrite.rows import order_limit as order_limit
from bridge.rewrite.rows import output_every as output_every
from bridge.rewrite.rows import previous as previous
from bridge.rewrite.rows import throttle as throttle
from bridge.rewrite.tables import change as change
from bridge.rewrite.tables import changed_window as changed_window
from bridge.rewrite.tables import stores as stores
from bridge.rewrite.tables import variables as variables

__all__ = ["Flow", "NamedSource", "Need", "Network"]
