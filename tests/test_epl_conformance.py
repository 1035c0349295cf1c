"""EPL as Esper runs it, but for the decisions of docs/epl.md: every case of tests/conformance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.epl_conformance import Run, cases

if TYPE_CHECKING:
    from tests.support.databases import Database

ROW_SCHEMAS, ROW_CASES = cases("epl_match_recognize")
PATTERN_SCHEMAS, PATTERN_CASES = cases("epl_patterns")


def name_of(case: dict[str, Any]) -> str:
    """What a case is called."""
    return str(case["name"])


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("together", [False, True], ids=["singly", "together"])
@pytest.mark.parametrize("case", ROW_CASES, ids=name_of)
def test_match_recognize(case: dict[str, Any], database: Database, together: bool) -> None:
    Run(database, ROW_SCHEMAS, case, together).check()


@pytest.mark.some_databases(1)
@pytest.mark.parametrize("together", [False, True], ids=["singly", "together"])
@pytest.mark.parametrize("case", PATTERN_CASES, ids=name_of)
def test_pattern(case: dict[str, Any], database: Database, together: bool) -> None:
    Run(database, PATTERN_SCHEMAS, case, together).check()
