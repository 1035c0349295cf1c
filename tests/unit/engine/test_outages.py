"""Servers that crash, networks that fail and leaders that are killed, under load: nothing is lost or doubled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import servers
from tests.support.databases import refuse_missing
from tests.support.runs import figures_of

LEADERS = ("sqlite", "postgresql", "mariadb")
SERVERS = ("postgresql", "mariadb")


def faults(fault: str, kind: str, times: int, *rest: str) -> Any:
    try:
        {"postgresql": servers.postgresql_programs, "mariadb": servers.mariadb_program, "sqlite": str}[kind]()
    except servers.MissingError as error:
        refuse_missing(str(error))
    return figures_of("tests.faults.outages", fault, kind, times, *rest, within=180 + 70 * times)


@pytest.mark.parametrize(
    ("fault", "kind"), [("server", "postgresql"), ("network", "mariadb"), ("leader", "sqlite")], ids=str
)
def test_a_few_queries_survive_a_fault(fault: str, kind: str) -> None:
    assert faults(fault, kind, 1, "0", "filtered,mean,absent")["results"] > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        *(("server", kind) for kind in SERVERS),
        *(("network", kind) for kind in SERVERS),
        *(("leader", kind) for kind in LEADERS),
    ],
    ids=str,
)
def test_all_queries_survive_many_faults(fault: str, kind: str) -> None:
    assert faults(fault, kind, 100)["results"] > 0
