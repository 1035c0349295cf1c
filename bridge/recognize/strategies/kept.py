"""Some of the sorted rows, for strategies that need not look at all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sqlglot import exp

from bridge.recognize.arrow import Array, Ints, taken
from bridge.recognize.rows import SortedRows


class KeptRows(SortedRows):
    """The sorted rows of these numbers, counted anew; what is `known` of them need not be asked again."""

    def __init__(self, rows: SortedRows, numbers: Ints, known: Mapping[exp.Expr, Array] | None = None) -> None:
        vars(self).update(vars(rows))
        self.rows, self.numbers, self.known = rows, numbers, known or {}
        self.ends = np.searchsorted(numbers, rows.ends)

    def columns(self, expressions: Sequence[exp.Expr]) -> list[Array]:
        """Each expression's values, row by row; those that read other rows read all there are."""
        unknown = [expression for expression in expressions if expression not in self.known]
        asked = dict(zip(unknown, self.rows.columns(unknown), strict=True))
        return [self.known[e] if e in self.known else taken(asked[e], self.numbers) for e in expressions]
