"""The connection of a bridge, as a program gets it for its own statements."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from bridge.errors import Closed
from windows.databases import Database

STATEMENTS = frozenset(
    ["append", "execute", "execute_bound", "fetch", "fetch_arrow", "fetch_bound", "insert", "modify_bound", "notify"]
)
"""The methods that run one statement, which is complete when they return."""

_LASTING = frozenset(["begin", "begin_again", "limited", "registered", "register_arrow", "temporary_view"])
"""The methods that change the connection for longer, so that more statements are to be expected."""

_DESCRIBING = frozenset(dir(Database)).union(*map(inspect.get_annotations, Database.__mro__)) - STATEMENTS - _LASTING
"""The other names of a connection: they describe the database, and neither read nor change rows."""

_TRIGGER = re.compile(r"(?i)\btrigger\b")
"""Recognises triggers, which change tables at each push."""


class SharedConnection:
    """Wraps the connection, so that each statement of the program finds all rows in their tables.

    Before a statement, and before the first push after it, all rows are written into their tables. Statements are not
    seen after the program has asked for the driver's connection, begun a transaction, created a trigger or changed the
    object; from then on each push writes all rows.

    Args:
        database: The connection.
        before_statement: Called as `before_statement(is_last)` before the program uses it; `is_last`: later statements
            of the program will not be seen.
        lock: The lock that no push can take while a statement of the program runs.
    """

    def __init__(self, database: Database, before_statement: Callable[[bool], None], lock: Any) -> None:
        vars(self).update(_target=database, _before=before_statement, _lock=lock)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the connection, for `isinstance`."""
        return type(self._target)

    def __repr__(self) -> str:
        return repr(self._target)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name in STATEMENTS:
            return functools.wraps(found)(functools.partial(self._run, found))
        if name not in _DESCRIBING:
            self._before(True)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        with contextlib.suppress(Closed):  # the bridge is closed, so no rows are left to write
            self._before(True)
        setattr(self._target, name, value)

    def __delattr__(self, name: str) -> None:
        with contextlib.suppress(Closed):
            self._before(True)
        delattr(self._target, name)

    def _run(self, statement: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with self._lock:
            self._before(any(isinstance(each, str) and _TRIGGER.search(each) for each in arguments))
            return statement(*arguments, **options)
