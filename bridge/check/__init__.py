"""Resolves queries: finds every name and every type, and refuses what is wrong with its place in the text.

`bridge.check.resolve.resolve` is the entry point. The modules imported here register how each kind of node is resolved.
"""

from bridge.check import correlate as correlate
from bridge.check import epl as epl
from bridge.check import match as match
from bridge.check import row_pattern as row_pattern
from bridge.check import select as select
from bridge.check import temporal as temporal
from bridge.check import windows as windows
