"""What README and docs show is so: their code runs, their links lead somewhere, and every public name is explained.

A block ```python is a doctest; the blocks of a page share their names. A block ```sql is a script; the blocks of a page
are created in one bridge, beside a table `companies (symbol, name)`. A block ```console runs `$ cepbridge …` and wants
the output below. A block ```sh sets things up, which `.ci/run` does; here its commands are looked up. A block ```text
is prose. The rows of a table headed `refused` and `because` are tried out, too.
"""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

import bridge
from bridge.frontends.sql.statements import statements
from bridge.frontends.statements import CreateStream, Query

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
KINDS = {"python", "sql", "console", "sh", "text", "mermaid"}
FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF
PYTHON = {"PY": sys.executable, "NO_COLOR": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}


@dataclasses.dataclass(frozen=True)
class Block:
    """One block of code: its kind, its text, and the line of its page at which the text begins."""

    page: pathlib.Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: pathlib.Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(.*)\n((?:(?!```).*\n)*)```$", text, re.MULTILINE):
        yield Block(page, text.count("\n", 0, match.start(2)) + 1, match[1], match[2])


def blocks_of(kind: str) -> list[pytest.ParameterSet]:
    return [pytest.param(block, id=str(block)) for page in PAGES for block in blocks(page) if block.kind == kind]


def pages_with(kind: str) -> list[pytest.ParameterSet]:
    found = [page for page in PAGES if any(block.kind == kind for block in blocks(page))]
    on_spark = pytest.mark.xdist_group("spark")
    return [pytest.param(page, id=page.name, marks=on_spark if page.name == "spark.md" else ()) for page in found]


# Code -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_of_a_kind_that_is_tested(page: pathlib.Path) -> None:
    fences = re.findall(r"^\s*```", page.read_text(encoding="utf-8"), re.MULTILINE)
    found = list(blocks(page))
    assert len(fences) == 2 * len(found)
    assert {block.kind for block in found} <= KINDS


@pytest.mark.parametrize("page", pages_with("python"))
def test_python(page: pathlib.Path, request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> None:
    monkeypatch = request.getfixturevalue("monkeypatch")
    if page.name == "spark.md":
        request.getfixturevalue("spark")
    found = [block for block in blocks(page) if block.kind == "python"]
    assert [str(block) for block in found if ">>>" not in block.text] == []
    text = ""
    for block in found:
        text += "\n" * (block.line - 1 - text.count("\n")) + block.text
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, page.name, str(page), 0)
    output: list[str] = []
    monkeypatch.chdir(tmp_path)
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=output.append)
    assert not output, "".join(output)


@pytest.mark.parametrize("page", pages_with("sql"))
def test_sql(page: pathlib.Path) -> None:
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE companies (symbol VARCHAR, name VARCHAR)")
        for block in blocks(page):
            if block.kind == "sql":
                create(cep, block)


def create(cep: bridge.Bridge, block: Block) -> None:
    for statement in statements(block.text):
        try:
            if isinstance(statement, CreateStream):
                cep.register_stream(statement.name, statement.schema)
            elif isinstance(statement, Query):
                cep.create_query("unnamed", statement.node)
                cep.remove_query("unnamed")
            else:
                cep.create_query(statement.name, statement.node)
        except bridge.QueryError as error:
            pytest.fail(f"{block}: {error.within(block.text)}")


@pytest.mark.parametrize("block", blocks_of("console"))
def test_console(block: Block) -> None:
    runs = re.findall(r"^\$ (.*\n)((?:(?!\$ ).*\n?)*)", block.text, re.MULTILINE)
    assert runs
    for command, output in runs:
        assert command.startswith(("cepbridge ", "python examples/")), command
        script = f'cepbridge() {{ "$PY" -m bridge "$@"; }}; python() {{ "$PY" "$@"; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", script], cwd=ROOT, env={**os.environ, **PYTHON}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, encoding="utf-8", timeout=300,
        )  # fmt: skip
        wanted, got = timeless(output), timeless(done.stdout + done.stderr)
        assert doctest.OutputChecker().check_output(wanted, got, FLAGS), f"$ {command}{got}"


def timeless(output: str) -> str:
    """The output without what differs from run to run: the seconds it took, and blanks at the ends of lines."""
    return re.sub(r"\b\d+\.\d+ s\b", "0.00 s", re.sub(r"[ \t]+$", "", output, flags=re.MULTILINE)).strip() + "\n"


@pytest.mark.parametrize("block", blocks_of("sh"))
def test_commands_are_there(block: Block) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for target in re.findall(r"\bmake (\w+)", block.text):
        assert target in targets
    for listed in re.findall(r"pip install '?\.\[(.*?)\]", block.text):
        assert set(listed.split(",")) <= set(extras)
    for command in re.findall(r"\bcepbridge (\w+)", block.text):
        from bridge.cli import main

        assert command in main.commands


REFUSALS = re.compile(r"^\| refused \| because \|\n\|.*\n((?:\|.*\n?)*)", re.MULTILINE)


def refusals() -> Iterator[pytest.ParameterSet]:
    """The rows of tables headed | refused | because |; `\\|` is a bar in a table."""
    for page in PAGES:
        for table in REFUSALS.findall(page.read_text(encoding="utf-8")):
            for row in table.splitlines():
                sql, reason = (cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1])
                yield pytest.param(sql.strip("`"), reason, id=sql[:60])


@pytest.mark.parametrize(("sql", "reason"), list(refusals()))
def test_what_is_refused_is_refused_for_the_reason_given(sql: str, reason: str) -> None:
    with bridge.connect() as cep:
        cep.database.execute("CREATE TABLE companies (symbol VARCHAR, name VARCHAR)")
        cep.register_stream("trades", "symbol VARCHAR, price DOUBLE, volume INTEGER")
        cep.register_stream("quotes", "symbol VARCHAR, bid DOUBLE, ask DOUBLE")
        with pytest.raises(bridge.BridgeError) as caught:
            cep.create_query("refused", sql)
    assert getattr(caught.value, "message", str(caught.value)) == reason


# Links ----------------------------------------------------------------------------------------------------------------


def links() -> Iterator[pytest.ParameterSet]:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in dict.fromkeys(re.findall(r"\]\(([^)\s]+)\)", prose)):
            if "://" not in target:
                yield pytest.param(page, target, id=f"{page.name}-{target}")


@pytest.mark.parametrize(("page", "target"), list(links()))
def test_a_link_leads_somewhere(page: pathlib.Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = page.parent / path if path else page
    assert found.exists(), f"{page.name}: no {path}"
    if anchor:
        headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {slug(heading) for heading in headings}


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it.

    >>> slug("What `MATCHING` finds, and when")
    'what-matching-finds-and-when'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"]({page.relative_to(ROOT).as_posix()}" not in readme] == []


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", bridge.__all__)
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    found = getattr(bridge, name)
    text = inspect.getdoc(found) or ""
    assert text and not text.startswith(f"{name}("), f"bridge.{name} has no docstring of its own"
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        assert ">>>" in text, f"the docstring of bridge.{name} has no example"


PUBLIC = [name for name, _ in inspect.getmembers(bridge.Bridge) if not name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_method_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(bridge.Bridge, name))


def test_the_readme_lists_every_method() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in PUBLIC if not re.search(rf"`(cep\.)?{name}\b", readme)] == []


def test_the_changelog_knows_this_version() -> None:
    assert f"## [{bridge.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
