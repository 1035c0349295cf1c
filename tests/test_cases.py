"""Every case file, on every database, driven in several ways; the plans of some; and each query written back."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import random
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

import bridge
from bridge.engine.session import session_of
from bridge.rewrite.settings import Settings
from tests.support.cases_format import THE_QUERY, Advance, Case, Push, agree, declared, load_all, printed, report
from tests.support.databases import DATABASES, one_of, tables_of
from windows.databases import open_database
from windows.times import BEGINNING

if TYPE_CHECKING:
    from tests.support.databases import Database

CASES = load_all()
COPY = "copy_of_table_"
PLANS = pathlib.Path(__file__).parent / "plans"
Items = Sequence[Push | Advance]


# Drives ---------------------------------------------------------------------------------------------------------------


def push_one_by_one(cep: Any, items: Items) -> None:
    """A purge after each: what is removed is never missed."""
    for item in items:
        if isinstance(item, Push):
            cep.push_event(item.stream, item.payload, item.timestamp)
        else:
            cep.advance_time(item.timestamp)
        cep.purge()


def push_batches_of_3(cep: Any, items: Items) -> None:
    with few_are(2, cep):
        push_batches(cep, items, 3)


def push_at_once(cep: Any, items: Items) -> None:
    with few_are(0, cep):
        push_batches(cep, items, max(1, len(items)))


@contextlib.contextmanager
def few_are(events: int, cep: Any) -> Iterator[None]:
    """So many events are taken as few: what is for many is tried on small cases, too."""
    session = session_of(cep)
    before, session.settings = session.settings, dataclasses.replace(session.settings, few=events)
    try:
        yield
    finally:
        session.settings = before


def push_batches(cep: Any, items: Items, size: int) -> None:
    """Batches of at most `size` events; an `advance` ends one."""
    for pushes, run in itertools.groupby(items, key=lambda item: isinstance(item, Push)):
        if not pushes:
            push_one_by_one(cep, list(run))
            continue
        events = [(item.stream, item.payload, item.timestamp) for item in run if isinstance(item, Push)]
        for start in range(0, len(events), size):
            cep.push_all(events[start : start + size])


DRIVES: dict[str, Callable[[Any, Items], None]] = {
    "push": push_one_by_one,
    "batches": push_batches_of_3,
    "at_once": push_at_once,
}


# Running --------------------------------------------------------------------------------------------------------------


class Snapshot:
    """The tables of a bridge before any event, and those of its data stores; `restore` brings them back."""

    def __init__(self, cep: Any) -> None:
        self.session = session_of(cep)
        with self.session.replacing_state(BEGINNING, 0):
            pass  # tables of constants are filled before a push
        stores = [store.database() for store in self.session.catalogue.stores.known.values()]
        self.copies = [(database, copied(database)) for database in (cep.database, *stores)]

    def restore(self) -> None:
        """The bridge goes on as if it had been opened now."""
        with self.session.replacing_state(BEGINNING, 0):
            for database, copies in self.copies:
                for name in table_names(database):
                    table = database.quoted(name)
                    database.execute(f"DELETE FROM {table}")
                    if name in copies:
                        database.execute(f"INSERT INTO {table} SELECT * FROM {copies[name]}")


def copied(database: Any) -> dict[str, str]:
    """Copies of all tables, by the names of these."""
    copies = {}
    for place, name in enumerate(table_names(database)):
        copies[name] = database.quoted(f"{COPY}{place}")
        database.execute(f"CREATE TABLE {copies[name]} AS SELECT * FROM {database.quoted(name)}")
    return copies


def table_names(database: Any) -> list[str]:
    return sorted(name for name in tables_of(database) if not name.startswith(COPY))


def run(case: Case, database: Database, *drives: str) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """For each way to push the events the results of each query of which the case expects something.

    All are on one bridge: to open it and to create the queries takes longer than the events.
    """
    with contextlib.closing(database.connect()) as cep:
        prepare(cep, case)
        before = Snapshot(cep) if len(drives) > 1 else None
        for drive in drives:
            if drive != drives[0] and before is not None:
                before.restore()
            yield drive, results_of(cep, case, drive)


def results_of(cep: Any, case: Case, drive: str) -> dict[str, list[Any]]:
    """The results of each query of which the case expects something, on a bridge that has had no event."""
    results: dict[str, list[Any]] = {name: [] for name in case.expect}
    handles = [cep.add_output_processor(name, received.append) for name, received in results.items()]
    DRIVES[drive](cep, case.events)
    check_tables(cep, case)
    for handle in handles:
        cep.remove_output_processor(handle)
    return results


def check_tables(cep: Any, case: Case) -> None:
    """What the case leaves in tables of the database and of data stores."""
    for name, table in case.leaves.items():
        *store, own = name.split(".")
        database = cep._catalogue.stores.find(store[0]).database() if store else cep.database
        columns = ", ".join(database.quoted(column) for column in table.columns)
        rows = [tuple(map(printed, row)) for row in database.fetch(f"SELECT {columns} FROM {database.quoted(own)}")]
        assert sorted(rows) == sorted(tuple(map(str, row)) for row in table.rows), f"{case.id}: {name}"


def prepare(cep: Any, case: Case) -> None:
    """Make the relations, streams and queries of a case."""
    make_relations(cep, case)
    declare(cep, case)


def make_relations(cep: Any, case: Case) -> None:
    """Make the tables that the queries of a case read, in the database and in data stores."""
    for name, table in case.tables.items():
        make_table(cep, name, table)
    for name, tables in case.stores.items():
        cep.register_datastore(name, open_store(tables))


def declare(cep: Any, case: Case) -> None:
    """The streams and queries of a case."""
    for name, schema in case.streams.items():
        cep.register_stream(name, schema)
    create_queries(cep, case)


def create_queries(cep: Any, case: Case) -> None:
    for name, text in case.queries.items():
        cep.create_query(name, text, language=case.languages[name])


def open_store(tables: Mapping[str, Any]) -> Any:
    """A data store with these tables, in memory."""
    store = open_database("sqlite://")
    for name, table in tables.items():
        make_table(types.SimpleNamespace(database=store), name, table)
    return store


def store_file(path: pathlib.Path, tables: Mapping[str, Any]) -> str:
    """The URL of a data store with these tables, in a file."""
    url = f"sqlite:///{path}"
    store = open_database(url)
    for name, table in tables.items():
        make_table(types.SimpleNamespace(database=store), name, table)
    store.close()
    return url


def make_table(cep: Any, name: str, table: Any) -> None:
    columns = ", ".join(f"{quoted(column)} {declared(kind, cep.database)}" for column, kind in table["columns"].items())
    cep.database.execute(f"CREATE TABLE {quoted(name)} ({columns})")
    for row in table["rows"]:
        cep.database.execute(f"INSERT INTO {quoted(name)} VALUES ({', '.join(map(literal, row))})")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return {None: "NULL"}.get(value, str(value))
    return "'" + str(value).replace("'", "''") + "'"


def allow_not_yet(request: pytest.FixtureRequest, case: Case, database: Database) -> None:
    if reason := case.not_yet.get(database.name):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


# Tests ----------------------------------------------------------------------------------------------------------------


EACH = [pytest.param(case, id=case.id) for case in CASES]
WITH_RESULTS = [pytest.param(case, id=case.id) for case in CASES if case.events and not case.error]


@pytest.mark.parametrize("case", EACH)
def test_case(case: Case, embedded: Database, request: pytest.FixtureRequest) -> None:
    """What one of them is given one by one, the other is in batches or at once."""
    in_batches = ("batches", "at_once")[zlib.crc32(case.title.encode()) % 2]
    check(case, embedded, request, ("push", in_batches)[turn_of(case, embedded)])


@pytest.mark.parametrize("case", EACH)
def test_case_on_a_server(case: Case, server: Database, request: pytest.FixtureRequest) -> None:
    """What one server is given one by one, the other is at once."""
    check(case, server, request, ("push", "at_once")[turn_of(case, server)])


@pytest.mark.long
@pytest.mark.parametrize("case", EACH)
def test_case_in_each_way(case: Case, database: Database, request: pytest.FixtureRequest) -> None:
    check(case, database, request, *DRIVES)


def turn_of(case: Case, database: Database) -> int:
    """0 or 1: of two databases in succession one has 0 and the other 1."""
    return (zlib.crc32(case.id.encode()) + [each.name for each in DATABASES].index(database.name)) % 2


@pytest.mark.one_in(2)
@pytest.mark.some_databases(1)
@pytest.mark.parametrize("case", WITH_RESULTS)
def test_case_as_a_replay(case: Case, database: Database, request: pytest.FixtureRequest) -> None:
    """No other query follows, and row patterns are matched as those of many events."""
    check_replay(case, database, request, ("batches", "at_once")[zlib.crc32(case.title.encode()) % 2])


@pytest.mark.long
@pytest.mark.parametrize("drive", ["batches", "at_once"])
@pytest.mark.parametrize("case", WITH_RESULTS)
def test_case_as_a_replay_in_each_way(
    case: Case, drive: str, database: Database, request: pytest.FixtureRequest
) -> None:
    check_replay(case, database, request, drive)


def check_replay(case: Case, database: Database, request: pytest.FixtureRequest, drive: str) -> None:
    """A bridge that is opened for a replay gives what the case expects."""
    allow_not_yet(request, case, database)
    with contextlib.closing(database.connect(Settings(bulk_events=2))) as cep:
        with session_of(cep).of_replay():
            prepare(cep, case)
        check_results(case, [(drive, results_of(cep, case, drive))])


sqlite = one_of([each for each in DATABASES if each.name == "sqlite"])
duckdb = one_of([each for each in DATABASES if each.name == "duckdb"])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", WITH_RESULTS)
def test_case_resumed(case: Case, sqlite: Database, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> None:
    """D2: the process dies after some of the events, and another one goes on."""
    check_resumed_at(random.Random(case.id).randrange(len(case.events) + 1), case, sqlite, tmp_path, request)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("case", WITH_RESULTS)
def test_case_resumed_on_duckdb(
    case: Case, duckdb: Database, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    """It opens slowly."""
    check_resumed_at(len(case.events) // 2, case, duckdb, tmp_path, request)


def check_resumed_at(
    place: int, case: Case, database: Database, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    check_resumed(case, database, tmp_path, request, [case.events[:place], case.events[place:]])


@pytest.mark.long
@pytest.mark.parametrize("case", WITH_RESULTS)
def test_case_resumed_after_each_event(
    case: Case, database: Database, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    check_resumed(case, database, tmp_path, request, [[], *([item] for item in case.events), []])


def check_resumed(
    case: Case, database: Database, folder: pathlib.Path, request: pytest.FixtureRequest, parts: Sequence[Items]
) -> None:
    """Pushes the parts of the case's events, each by a process of its own; the last one ends as it should."""
    allow_not_yet(request, case, database)
    url = database.durable(folder)
    stores = {name: store_file(folder / f"{name}.db", tables) for name, tables in case.stores.items()}
    results: dict[str, list[Any]] = {name: [] for name in case.expect}
    cep = bridge.connect(url)
    for name, table in case.tables.items():
        make_table(cep, name, table)
    for place, items in enumerate(parts):
        if place > 0:
            cep.database.close()  # as when the process is killed
            cep = bridge.connect(url)
        for name, store in stores.items():
            cep.register_datastore(name, store)
        declare(cep, case)
        for name, received in results.items():
            cep.add_output_processor(name, received.append)
        push_batches(cep, items, 1)
    with contextlib.closing(cep):
        check_tables(cep, case)
        cep.drop()
    for name, actual in results.items():
        if not agree(case.expect[name], actual):
            pytest.fail(report(case, name, actual), pytrace=False)


def check(case: Case, database: Database, request: pytest.FixtureRequest, *drives: str) -> None:
    """The case gives what it expects, in each way."""
    allow_not_yet(request, case, database)
    if not case.events:
        drives = ("push",)
    if case.error is not None:
        for drive in drives:
            check_refusal(case, database, drive)
        return
    check_results(case, run(case, database, *drives))


def check_results(case: Case, found: Iterable[tuple[str, Mapping[str, list[Any]]]]) -> None:
    """Fails with all ways to push whose results are not those that the case expects."""
    wrong = [
        f"{drive}: {report(case, name, actual)}"
        for drive, results in found
        for name, actual in results.items()
        if not agree(case.expect[name], actual)
    ]
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)


def check_refusal(case: Case, database: Database, drive: str) -> None:
    """The case is refused with a message that holds its fragment and points where it says."""
    with pytest.raises(bridge.BridgeError) as caught:
        list(run(case, database, drive))
    error = caught.value
    assert case.error is not None
    message = getattr(error, "message", str(error))  # without the line of the query that the text of the error shows
    assert case.error.lower() in message.lower(), f"{case.id}: {error}"
    if case.at is not None:
        text, position = getattr(error, "text", None), getattr(error, "position", None)
        assert text in case.queries.values(), f"{case.id}: the error does not hold the query's text: {error}"
        assert position is not None, f"{case.id}: the error has no position: {error}"
        assert text[position:].startswith(case.at), f"{case.id}: {error}"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES if case.plan])
def test_plan(case: Case, database: Database, request: pytest.FixtureRequest) -> None:
    allow_not_yet(request, case, database)
    golden = PLANS / f"{case.id.replace('/', '__')}.{database.name}.txt"
    with contextlib.closing(database.connect()) as cep:
        prepare(cep, case)
        plan = str(cep.explain(list(case.queries)[-1])).rstrip() + "\n"
    if request.config.getoption("--update-plans"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(plan, encoding="utf-8")
    assert golden.exists(), f"no {golden.name} yet: pytest --update-plans writes it"
    assert plan == golden.read_text(encoding="utf-8"), "a plan changed; if that is right: pytest --update-plans"


def test_every_plan_file_has_its_case() -> None:
    stems = {case.id.replace("/", "__") for case in CASES if case.plan}
    assert [path.name for path in PLANS.glob("*.txt") if path.name.split(".")[0] not in stems] == []


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(sql, id=case.id if name == THE_QUERY else f"{case.id}-{name}")
        for case in CASES
        if case.error is None
        for name, sql in case.queries.items()
        if case.languages[name] == "sql"
    ],
)
def test_a_query_writes_itself_back(sql: str) -> None:
    from bridge.frontends.sql.statements import parse

    tree = parse(sql)
    assert parse(str(tree)) == tree, str(tree)


def test_titles_are_facts_of_their_own() -> None:
    titles = [case.title for case in CASES]
    assert sorted(title for title in set(titles) if titles.count(title) > 1) == []
