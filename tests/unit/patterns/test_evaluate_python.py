"""Conditions written out in Python are true where the same conditions over single values are."""

from __future__ import annotations

import itertools

import pytest
from sqlglot import parse_one

from bridge.patterns.evaluate.python import HELPERS, scalar, truth

CONDITIONS = [
    "_v0 < COALESCE(_v1, _v2)",
    "COALESCE(_v0, 0) >= COALESCE(_v1, _v2, 1)",
    "NOT COALESCE(_v0, _v1) = _v2 + 1",
    "NOT (_v0 < _v1 AND NOT _v2 > 1) OR _v0 IS NULL",
    "_v0 BETWEEN _v1 AND 2 OR NOT _v2 BETWEEN 0 AND _v0",
    "_v0 IN (1, _v1) AND NOT _v2 IS NULL",
    "NOT _v0 IN (1, _v1)",
    "-_v0 * (_v1 + 2) - _v2 < 0",
    "_v0 - (_v1 - _v2) > 0 OR _v0 = _v1",
    "(_v0 > _v1) = (_v1 > _v2)",
    "NOT (_v0 + _v1 IS NULL OR _v2 <> 1)",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_is_true_of_the_same_values(text: str):
    source = truth(parse_one(text), {"_v0", "_v1", "_v2"})
    computed = scalar(parse_one(text), 3)
    assert computed is not None
    inlined = eval(f"lambda _v0, _v1, _v2: {source}", dict(HELPERS))
    for values in itertools.product([None, 0, 1, 2, 3], repeat=3):
        assert bool(inlined(*values)) == bool(computed(*values)), (values, source)


def test_what_only_a_database_computes_is_not_written():
    assert truth(parse_one("_v0 LIKE 'a%'"), {"_v0"}) is None
