"""The states of operators before a transaction has changed them, so that they are restored if it fails."""

from __future__ import annotations

import copy
from typing import Any

from bridge.rewrite.plan import Operator


class EarlierStates:
    """The operators that the current transaction has changed, with their earlier state and that of their family.

    >>> operator, earlier = Operator("Filter", frozenset(), timed=False), EarlierStates()
    >>> earlier.note(operator)
    >>> operator.inboxes.append("cep_inbox_s")
    >>> earlier.restore()
    >>> operator.inboxes
    []
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Operator, dict[str, Any], dict[str, Any]]] = {}

    def clear(self) -> None:
        """Forgets all states, as a transaction begins."""
        self._known.clear()

    def note(self, operator: Operator) -> None:
        """Records the state of an operator, unless the transaction has changed it already."""
        if id(operator) not in self._known:
            state = {name: copy.copy(value) for name, value in vars(operator).items() if name != "family"}
            family = {} if operator.family is None else dict(vars(operator.family))
            self._known[id(operator)] = operator, state, family

    def restore(self) -> None:
        """Restores the recorded states."""
        for operator, state, family in self._known.values():
            vars(operator).update(state)
            if operator.family is not None:
                vars(operator.family).update(family)
