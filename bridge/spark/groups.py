"""Queries that are computed in the same pieces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from bridge.history.pieces import Path, key_description
from bridge.spark.big_partitions import NO_STRANDS, Strands


@dataclasses.dataclass(frozen=True)
class Group:
    """Queries that are computed in the same pieces, in one pass, but for `strands`, each of which is cut by itself."""

    names: tuple[str, ...]
    back: int | None
    keys: Mapping[str, tuple[Path, ...]]
    strands: Strands = NO_STRANDS

    @property
    def told(self) -> str:
        """How the pieces are made, in words."""
        if self.back is not None:
            return f"slices of time, each looking back {self.back} ms"
        if self.strands.found:
            return f"{f'{key_description(self.keys)}; ' if self.strands.rest else ''}{self.strands.told}"
        return key_description(self.keys)


def in_one_pass(groups: Iterable[Group]) -> list[Group]:
    """Fewer groups: those by key are one where they have no stream in common, or the same keys of it.

    >>> by_k, of_both = {"s": (("k",),)}, {"s": (("k",),), "u": (("j",),)}
    >>> [group.names for group in in_one_pass([Group(("a",), None, by_k), Group(("b",), None, of_both)])]
    [('a', 'b')]
    """
    found: list[Group] = []
    for group in groups:
        at = next((at for at, other in enumerate(found) if _agree(group, other)), None)
        if at is None:
            found.append(group)
        else:
            keys = {**found[at].keys, **group.keys}
            found[at] = dataclasses.replace(found[at], names=(*found[at].names, *group.names), keys=keys)
    return found


def _agree(one: Group, other: Group) -> bool:
    by_key = all(group.keys and group.back is None and not group.strands.found for group in (one, other))
    return by_key and all(other.keys.get(stream, columns) == columns for stream, columns in one.keys.items())
