"""Imports point one way, and `import bridge` loads nothing heavy."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.rooms import floors, mermaid, nodes_of

ROOT = pathlib.Path(__file__).parent.parent
HEAVY = (
    "pyspark", "pandas", "polars", "pyarrow", "numpy", "numba", "sqlalchemy", "duckdb", "psycopg", "pymysql", "click", "rich",
    "asyncio", "multiprocessing", "concurrent",
)  # fmt: skip
FORBIDDEN = {
    "windows": ("bridge", "nfa"),
    "nfa": ("bridge", "windows"),
    "bridge/query": ("bridge.engine", "windows.databases", "duckdb", "sqlalchemy"),
    "bridge/frontends": ("bridge.engine", "windows.databases", "duckdb", "sqlalchemy"),
}
"""What the files of a folder, or one file, must not import."""


@pytest.fixture(scope="module", autouse=True)
def _trees_are_for_this_file() -> Iterator[None]:
    """Millions of nodes are not kept, which the garbage collector would visit in all later tests."""
    yield
    nodes_of.cache_clear()


def imports_of(path: pathlib.Path) -> Iterator[str]:
    """The full names of all modules and members a file imports, also inside functions."""
    package = path.relative_to(ROOT).parent.parts
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_in(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


@pytest.mark.parametrize("place", FORBIDDEN)
def test_imports_point_one_way(place: str) -> None:
    files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("*.py"))
    assert files
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in imports_of(path)
        if any(is_in(name, module) for module in FORBIDDEN[place])
    ]
    assert wrong == []


def functions(path: pathlib.Path) -> Iterator[tuple[str, int]]:
    """The functions of a file, as `path:line name`, and how many lines each has without its docstring."""
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0], node.end_lineno or node.lineno
            docstring = (
                (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node, clean=False) is not None else 0
            )
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", last - node.lineno + 1 - docstring


def test_functions_and_files_are_short() -> None:
    files = [path for package in ("bridge", "nfa", "windows") for path in sorted((ROOT / package).rglob("*.py"))]
    assert [name for path in files for name, lines in functions(path) if lines > 45] == []
    assert [
        str(path.relative_to(ROOT)) for path in files if len(path.read_text(encoding="utf-8").splitlines()) > 400
    ] == []


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for package in ("bridge", "nfa", "windows"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in nodes_of(path):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name.lstrip("_"), []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_documentation_shows_the_packages_as_they_are(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "how-it-works.md"
    text = page.read_text(encoding="utf-8")
    drawn = re.sub(r"```mermaid\n.*?```", lambda _: f"```mermaid\n{mermaid()}\n```", text, flags=re.DOTALL)
    if request.config.getoption("--update-plans"):
        page.write_text(drawn, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == drawn, "the imports changed; if that is right: pytest --update-plans"
    for floor in floors():
        for room in floor:
            assert room in ("bridge.errors", "bridge.__main__") or f"[{room.replace('.', '/')}]" in text, (
                f"{room} is not described"
            )


def test_importing_the_bridge_loads_no_driver_and_no_data_frames() -> None:
    code = "import sys, bridge; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(loaded.stdout.split()) & set(HEAVY) == set()
