"""Groups of queries that are computed in the same pieces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from bridge.history.pieces import Path, key_description
from bridge.spark.big_partitions import NO_BIG_PARTITIONS, BigPartitions


@dataclasses.dataclass(frozen=True)
class QueryGroup:
    """Queries that are computed in the same pieces, in one pass; each of the `big` partitions is cut separately.

    `back`: how far each slice of time looks back, in milliseconds; None for pieces by `keys`.
    """

    names: tuple[str, ...]
    back: int | None
    keys: Mapping[str, tuple[Path, ...]]
    big: BigPartitions = NO_BIG_PARTITIONS

    @property
    def description(self) -> str:
        """A description of the pieces."""
        if self.back is not None:
            return f"slices of time, each looking back {self.back} ms"
        if self.big.partitions:
            return f"{f'{key_description(self.keys)}; ' if self.big.has_others else ''}{self.big.description}"
        return key_description(self.keys)


def merge_groups(groups: Iterable[QueryGroup]) -> list[QueryGroup]:
    """Fewer groups: groups by key are merged if they have no common stream, or the same keys for it.

    >>> by_k, of_both = {"s": (("k",),)}, {"s": (("k",),), "u": (("j",),)}
    >>> [group.names for group in merge_groups([QueryGroup(("a",), None, by_k), QueryGroup(("b",), None, of_both)])]
    [('a', 'b')]
    """
    merged: list[QueryGroup] = []
    for group in groups:
        at = next((at for at, other in enumerate(merged) if _agree(group, other)), None)
        if at is None:
            merged.append(group)
        else:
            keys = {**merged[at].keys, **group.keys}
            merged[at] = dataclasses.replace(merged[at], names=(*merged[at].names, *group.names), keys=keys)
    return merged


def _agree(one: QueryGroup, other: QueryGroup) -> bool:
    by_key = all(group.keys and group.back is None and not group.big.partitions for group in (one, other))
    return by_key and all(other.keys.get(stream, columns) == columns for stream, columns in one.keys.items())
