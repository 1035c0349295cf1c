"""Every public member of a bridge says what it does, with an example; the examples run as doctests."""

from __future__ import annotations

import inspect

import pytest

import bridge

MEMBERS = [name for name in dir(bridge.Bridge) if not name.startswith("_")]


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_has_an_example(name: str) -> None:
    documentation = inspect.getdoc(inspect.getattr_static(bridge.Bridge, name))
    assert documentation is not None and ">>>" in documentation


@pytest.mark.parametrize("name", MEMBERS)
def test_every_parameter_is_described(name: str) -> None:
    member = inspect.getattr_static(bridge.Bridge, name)
    if callable(member):
        described = inspect.getdoc(member) or ""
        parameters = [each for each in inspect.signature(member).parameters if each != "self"]
        assert [each for each in parameters if f"{each}:" not in described] == []
