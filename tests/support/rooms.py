"""The packages of the project as a graph: which one imports which, read from the code."""

from __future__ import annotations

import ast
import functools
import pathlib
import tomllib
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).parents[2]
TOP = ("bridge", "windows", "nfa")


def room_of(module: str) -> str | None:
    """The package that a module belongs to: `bridge.engine`, `nfa`; None for modules of others.

    >>> room_of("bridge.engine.execution.runner"), room_of("nfa.threads.path"), room_of("bridge"), room_of("sqlglot.exp")
    ('bridge.engine', 'nfa', 'bridge', None)
    """
    parts = module.split(".")
    if parts[0] not in TOP:
        return None
    return ".".join(parts[:2]) if parts[0] == "bridge" and len(parts) > 1 and _is_module(parts[:2]) else parts[0]


def _is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").exists()


@functools.cache
def imports() -> Mapping[str, frozenset[str]]:
    """For each package those that its files import, inside functions and for types alone, too."""
    found: dict[str, set[str]] = {}
    for top in TOP:
        for path in (ROOT / top).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            room = room_of(module)
            assert room is not None
            rooms = {room_of(name) for name in _imported(path)}
            found.setdefault(room, set()).update(other for other in rooms if other is not None and other != room)
    return {room: frozenset(others) for room, others in found.items()}


@functools.cache
def nodes_of(path: pathlib.Path) -> list[ast.AST]:
    """The nodes of a file's syntax tree; kept, as several tests read all files."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _imported(path: pathlib.Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def floors() -> list[list[str]]:
    """The packages by floors, the top one first, as `pyproject.toml` lays them down for import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        c["layers"] for c in settings["tool"]["importlinter"]["contracts"] if c.get("containers") == ["bridge"]
    )
    named = [[f"bridge.{name.strip()}" for name in layer.split("|")] for layer in layers]
    return [*named, ["windows", "nfa"]]


def mermaid() -> str:
    """The packages as a flowchart of Mermaid, without arrows that others imply."""
    arrows = {room: others - {"bridge.errors"} for room, others in imports().items()}
    lines = ["flowchart TD"]
    for floor in floors():
        rooms = [room for room in floor if room in arrows and room not in ("bridge.errors", "bridge.__main__")]
        lines += [f'    {room.removeprefix("bridge.")}["{_title(room)}"]' for room in rooms]
    for floor in floors():
        for room in floor:
            for other in sorted(_direct(room, arrows)):
                lines.append(f"    {room.removeprefix('bridge.')} --> {other.removeprefix('bridge.')}")
    return "\n".join(line for line in lines if "__main__" not in line)


def _title(room: str) -> str:
    return room.replace(".", "/")


def _direct(room: str, arrows: Mapping[str, frozenset[str]]) -> set[str]:
    """What a package imports, but for what another one of these imports, too."""
    own = {other for other in arrows.get(room, frozenset()) if other != "bridge"}
    return own - {far for near in own for far in _below(near, arrows)}


def _below(room: str, arrows: Mapping[str, frozenset[str]]) -> set[str]:
    near = {other for other in arrows.get(room, frozenset()) if other != "bridge"}
    return near | {far for other in near for far in _below(other, arrows)}
