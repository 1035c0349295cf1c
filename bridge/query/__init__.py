"""The logical form of a query: its objects, scripts of them, and their text."""

from bridge.query import text as text  # registers how nodes are written
from bridge.query.changes import *  # noqa: F403
from bridge.query.epl_nodes import *  # noqa: F403
from bridge.query.expressions import *  # noqa: F403
from bridge.query.nodes import *  # noqa: F403
