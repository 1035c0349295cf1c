"""EPL as Esper runs it, but for the decisions of docs/epl.md: every case of tests/conformance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.epl_conformance import Run, cases

if TYPE_CHECKING:
    from databases import Database

ROW_SCHEMAS, ROW_CASES = cases("epl_match_recognize")
PATTERN_SCHEMAS, PATTERN_CASES = cases("epl_patterns")

NOT_YET = {
    "M28a": "whole events as measures",
}
"""What does not work, by the case: a strict list."""


def parameters(found: list[dict[str, Any]]) -> list[Any]:
    """The cases by their names; those that fail must."""
    return [pytest.param(case, id=case["name"], marks=_marks(case["name"])) for case in found]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.xfail(reason=NOT_YET[name], strict=True)] if name in NOT_YET else []


@pytest.mark.parametrize("together", [False, True], ids=["singly", "together"])
@pytest.mark.parametrize("case", parameters(ROW_CASES))
def test_match_recognize(case: dict[str, Any], database: Database, together: bool) -> None:
    Run(database, ROW_SCHEMAS, case, together).check()


@pytest.mark.parametrize("together", [False, True], ids=["singly", "together"])
@pytest.mark.parametrize("case", parameters(PATTERN_CASES))
def test_pattern(case: dict[str, Any], database: Database, together: bool) -> None:
    Run(database, PATTERN_SCHEMAS, case, together).check()
