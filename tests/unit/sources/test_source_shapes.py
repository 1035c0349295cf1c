"""Files and frames as people have them: the rows that pandas or DuckDB reads."""

from __future__ import annotations

import pathlib
import warnings

import pytest

from bridge.sources.options import ReadOptions
from bridge.sources.source import open_source
from tests.support.source_shapes import Shape, plain, shapes
from windows.schema import Schema

SHAPES = shapes()


def test_there_are_many_shapes() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 120


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_source_has_the_rows_that_others_read(shape: Shape, tmp_path: pathlib.Path) -> None:
    source = shape.make(tmp_path)
    schema = None if shape.schema is None else Schema.of(shape.schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_source("s", source, schema, ReadOptions(**shape.options))
        found = [
            {name: plain(value) for name, value in row.items()} for each in opened.tables() for row in each.to_pylist()
        ]
    expected = shape.expected(source)
    assert found == [{name: row[name] for name in (found[0] if found else row)} for row in expected]
    assert not found or set(found[0]) == set(expected[0])
