"""Servers that crash, networks that fail and leaders that are killed, under load: nothing is lost or doubled."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.faults import killing, outages

LEADERS = ("sqlite", "postgresql", "mariadb")
SERVERS = ("postgresql", "mariadb")


def faults(fault: str, kind: str, times: int, folder: pathlib.Path) -> dict[str, Any]:
    if fault == "leader":
        return outages.kill_leaders(kind, times, folder)
    return outages.run_faults(fault, kind, times, folder)


@pytest.mark.parametrize(
    ("fault", "kind"), [("server", "postgresql"), ("network", "mariadb"), ("leader", "sqlite")], ids=str
)
def test_a_few_queries_survive_a_fault(
    fault: str, kind: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: killing.PLAIN[name] for name in ("filtered", "mean", "absent")}
    monkeypatch.setattr(killing, "QUERIES", few)
    monkeypatch.setattr(killing, "DECLARED", {})
    found = faults(fault, kind, 1, tmp_path)
    assert found["results"] > 0
    assert found["longest"] < outages.PATIENCE


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
def test_all_queries_survive_many_faults(fault: str, kind: str, tmp_path: pathlib.Path) -> None:
    assert faults(fault, kind, 100, tmp_path)["results"] > 0
