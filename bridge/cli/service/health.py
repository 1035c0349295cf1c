"""The health of `cepbridge watch`: checked once per second, logged when it changes, and served by HTTP on 127.0.0.1."""

from __future__ import annotations

import http.server
import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from bridge.cli.service.webhooks import Webhook
from bridge.engine.bridge import Bridge
from bridge.engine.session import session_of
from bridge.errors import SourceError

INTERVAL = 1.0
"""Seconds between two checks."""

EARLY = 3.0
"""The seconds after a start in which checks are ten times as frequent, until the watch has caught up."""

MOST_LAG = 5_000
"""The lag in milliseconds up to which a watch counts as having caught up."""

STUCK = 60.0
"""The seconds without progress after which a watch is not healthy."""

_log = logging.getLogger("bridge.watch")


class LastError(logging.Handler):
    """Remembers the last logged error and its time."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text: str | None = None
        self.at: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.text, self.at = record.getMessage(), int(record.created * 1_000)


class Monitor:
    """Checks a bridge once per second, from a thread. `state`: the result of the last check, as a mapping for JSON."""

    def __init__(self) -> None:
        self.errors = LastError()
        self.state: dict[str, Any] = {"healthy": False, "caught_up": False}
        self._cep: Bridge | None = None
        self._webhooks: Sequence[Webhook] = ()
        self._opened, self._was_caught_up = time.monotonic(), False
        self._progress: tuple[float, Any] = time.monotonic(), None
        threading.Thread(target=self._run, name="monitor", daemon=True).start()

    def follow(self, cep: Bridge, webhooks: Sequence[Webhook]) -> None:
        """Checks this bridge from now on."""
        self._opened, self._was_caught_up = time.monotonic(), False
        self._webhooks, self._cep = webhooks, cep

    def lose(self) -> None:
        """Checks no bridge, as it was closed, until `follow` is called with another one."""
        self._cep = None
        self.state = {**self._about(), "healthy": False, "caught_up": False}

    def _run(self) -> None:
        while True:
            if (cep := self._cep) is not None:
                self.check(cep)
            is_new = not self._was_caught_up and time.monotonic() < self._opened + EARLY
            time.sleep(INTERVAL / 10 if is_new else INTERVAL)

    def check(self, cep: Bridge) -> None:
        """Updates the state, unless the bridge is closed or busy."""
        reading = session_of(cep).reading(INTERVAL / 2)
        now = time.monotonic()
        if reading is None or self._cep is not cep:
            self.state = {**self.state, **self._about(), "healthy": now - self._progress[0] < STUCK}
            return
        if (progress := (reading.caught_up_to, reading.events)) != self._progress[1]:
            self._progress = now, progress
        caught_up = reading.caught_up_to is None or reading.caught_up_to > time.time() * 1_000 - MOST_LAG
        self.state = {
            "healthy": now - self._progress[0] < STUCK,
            "caught_up": caught_up,
            "events": reading.events,
            "now": reading.now,
            "tables": {name: table._asdict() for name, table in reading.tables.items()},
            "stopped": reading.stopped,
            **self._about(),
        }
        if caught_up != self._was_caught_up:
            self._log_change(caught_up, reading.events)

    def _log_change(self, caught_up: bool, events: int) -> None:
        self._was_caught_up = caught_up
        if caught_up:
            _log.info(
                "caught up with all tables after %.1f s: %s events so far", time.monotonic() - self._opened, events
            )
        else:
            _log.warning("more than %s s behind", MOST_LAG // 1_000)

    def _about(self) -> dict[str, Any]:
        """The part of the state that does not come from the bridge."""
        webhooks = {
            each.query: {"sent": each.sent, "dead_letters": each.dead, "error": each.error} for each in self._webhooks
        }
        return {"webhooks": webhooks, "last_error": self.errors.text, "last_error_at": self.errors.at}


def serve(monitor: Monitor, port: int) -> int:
    """Serves the state on 127.0.0.1, from a thread. Returns the port; with `port` 0 the system chooses one.

    `/` answers 200 if the watch is healthy, otherwise 503. `/ready` answers 200 only if it has also caught up.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state = monitor.state
            is_well = state["healthy"] and (state["caught_up"] or self.path != "/ready")
            body = json.dumps(state, indent=2).encode() + b"\n"
            self.send_response(200 if is_well else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Requests are not logged."""

    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise SourceError(f"--health {port}: {error.strerror or error}") from None
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return int(server.server_address[1])
