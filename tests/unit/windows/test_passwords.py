"""No password is shown: in errors, logs, explain and repr, in whatever form a URL has it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

import bridge
from bridge.cli import main
from tests.support.databases import DATABASES
from windows.databases import Refused, open_database

FORMS = (
    "{scheme}://me:tops3cret@127.0.0.1:1/app",
    "{scheme}://me:top%73s3cret@127.0.0.1:1/app",
    "{scheme}://me:p%40%3A%2Ftops3cret@127.0.0.1:1/app",
    "{scheme}://me:a/tops3cret@127.0.0.1:1/app",
    "{scheme}://me:a?tops3cret@127.0.0.1:1/app",
    "{scheme}://me:a@tops3cret@127.0.0.1:1/app",
    "{scheme}://me:a:tops3cret@127.0.0.1:1/app",
    "{scheme}://:tops3cret@127.0.0.1:1/app",
    "{scheme}://me@127.0.0.1:1/app?password=tops3cret",
    "{scheme}://me@127.0.0.1:1/app?a=b&password=tops3cret&connect_timeout=2",
    "{scheme}://me@127.0.0.1:1/app?PASSWORD=tops3cret",
    "{scheme}://me@127.0.0.1:1/app?p%61ssword=tops3cret",
    "{scheme}://me@127.0.0.1:1/app?passwd=tops3cret",
    "{scheme}://me@127.0.0.1:1/app?sslpassword=tops3cret",
)
SCHEMES = ("postgresql+psycopg", "mariadb+pymysql", "postgres", "oracle", "nosuch+driver", "postgresql+psycopg2")
URLS = [form.format(scheme=scheme) for scheme in SCHEMES for form in FORMS]
HIDDEN = "tops3cret"


def refusals(url: str, call: Any) -> str:
    """What an error shows: its text, its repr, and its notes."""
    with pytest.raises(bridge.BridgeError) as refused:
        call(url)
    return f"{refused.value} {refused.value!r} {getattr(refused.value, '__notes__', '')}"


@pytest.mark.parametrize("url", URLS)
def test_errors_of_urls_show_no_password(url: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with bridge.connect() as cep:
        shown = [
            refusals(url, bridge.connect),
            refusals(url, lambda url: cep.register_datastore("crm", url)),
            refusals(url, lambda url: bridge.replay({"s": []}, {"q": "SELECT a FROM s[a: INTEGER]"}, database=url)),
        ]
    for text in [*shown, caplog.text]:
        assert HIDDEN not in text


@pytest.mark.parametrize("url", ["duckdb:///no/such/x?password=tops3cret", "duckdb:///md:x?motherduck_token=tops3cret"])
def test_errors_of_embedded_databases_show_no_password(url: str):
    assert HIDDEN not in refusals(url, bridge.connect)


@pytest.mark.parametrize("url", URLS[:3] + URLS[len(FORMS) - 5 : len(FORMS) - 3])
def test_commands_show_no_password(url: str, tmp_path: Any):
    text = tmp_path / "q.sql"
    text.write_text("SELECT a FROM s[a: INTEGER]")
    events = tmp_path / "s.csv"
    events.write_text("ts,a\n1,2\n")
    for arguments in (
        ["explain", str(text), "--db", url],
        ["explain", str(text), "--datastore", f"crm={url}", "--datastore", f"crm={url}"],
        ["explain", str(text), "--datastore", f"={url}"],
        ["replay", str(text), "--events", f"s={events}", "--db", url],
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code != 0, arguments
        assert HIDDEN not in done.output
        assert HIDDEN not in repr(done.exception)


@pytest.mark.parametrize(
    "form", ["://me:tops3cret@h/app", "://me@h/app?password=tops3cret", "://me@h/app?passwd=tops3cret"]
)
def test_an_engine_shows_no_password(form: str):
    from windows.databases import _engine

    for scheme in ("postgresql+psycopg", "mariadb+pymysql"):
        engine = _engine(sa.make_url(scheme + form))
        assert engine.url.password == HIDDEN
        assert HIDDEN not in repr(engine)
        assert HIDDEN not in str(engine.url)


def test_an_open_bridge_shows_no_password(caplog: pytest.LogCaptureFixture):
    """On a server whose URL has a password, with an engine that logs."""
    caplog.set_level(logging.DEBUG)
    database = next(each for each in DATABASES if each.name == "postgresql")
    if reason := database.missing():
        pytest.skip(reason)
    url = sa.make_url(database.fresh()).set(password=HIDDEN)
    for target in (url.render_as_string(hide_password=False), sa.create_engine(url, echo=True)):
        with bridge.connect(target, fresh=True) as cep:
            cep.create_query("q", "SELECT a FROM s[a: INTEGER]")
            cep.push_event("s", [1], 1000)
            cep.register_datastore("crm", target)
            shown = [repr(cep), repr(cep.database), cep.explain("q"), cep.explain("SELECT 1"), repr(cep.dead_letters())]
            with pytest.raises(bridge.QueryError) as refused:
                cep.query("SELECT nosuch FROM s")
            with pytest.raises(Refused) as own:
                cep.database.execute("SELECT nosuch")
            for text in [*shown, str(refused.value), str(own.value), caplog.text]:
                assert HIDDEN not in text


def test_a_connection_of_the_users_own_is_not_named():
    with pytest.raises(Refused) as refused:
        open_database(sa.create_engine("mariadb+pymysql://me:tops3cret@127.0.0.1:1/app?ssl_key=x&password=tops3cret"))
    assert HIDDEN not in str(refused.value)
