"""Webhooks: each result of a query is sent to a URL, in order and at least once, while tables are read on."""

from __future__ import annotations

import http.client
import logging
import threading

from bridge.cli.service.outputs import json_of
from bridge.cli.service.settings import Target
from bridge.engine.named_processors import Result
from bridge.engine.subscription import Subscription
from bridge.errors import BridgeError, Closed
from bridge.stores.outbox import DeadLetter
from windows.databases import Refused

IDLE = 0.1
"""The seconds between two checks for results."""

FIRST, LONGEST = 0.2, 60.0
"""The seconds until a result is sent again: at first, and at most; they double each time."""

AT_ONCE = 100
"""The number of results that are read at once."""

BUSY = (429, 503)
"""The statuses of a server that asks for patience, which are not refusals."""

_log = logging.getLogger("bridge.watch")


class Webhook:
    """Sends the results of one query from a thread of its own.

    It waits for a server that does not answer or is busy. A result that is refused `attempts` times is a dead letter.
    """

    def __init__(self, subscription: Subscription, url: str, attempts: int) -> None:
        self._subscription, self._url, self._attempts = subscription, url, attempts
        self._target, self._ended = Target(url), threading.Event()
        self.query = subscription.query
        self.error: str | None = None
        """The reason why the next result has not been accepted."""
        self.sent = self.dead = 0
        """The numbers of results since the start that were accepted, and that were given up."""
        self._thread = threading.Thread(target=self._run, name=f"webhook of {subscription.query}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, seconds: float) -> None:
        """Ends it after the current request, for which it waits that long."""
        self._ended.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            try:
                results = self._subscription.fetch(AT_ONCE)
                for number, result in results:
                    self._send(number, result)
                pause = 0.0 if results else IDLE
            except Closed:
                return
            except (BridgeError, Refused) as error:
                _log.error("the results of %s wait for their webhook: %s", self._subscription.query, error)
                pause = 1.0

    def _send(self, number: int, result: Result) -> None:
        """Sends a result until it is accepted or given up, or until the webhook ends."""
        body, pause, refusals = json_of(self._subscription.query, result), FIRST, 0
        while not self._ended.is_set():
            try:
                status = self._target.post(body, result.id)
            except (OSError, http.client.HTTPException) as error:
                self.error = f"{type(error).__name__}: {error}"
            else:
                if 200 <= status < 300:
                    self.error, self.sent = None, self.sent + 1
                    self._subscription.advance(number)
                    return
                self.error = f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()
                refusals += status not in BUSY
            if refusals >= self._attempts:
                self._give_up(number, result, body)
                return
            self._warn(result, pause)
            self._ended.wait(pause)
            pause = min(LONGEST, pause * 2)

    def _warn(self, result: Result, pause: float) -> None:
        if pause in (FIRST, LONGEST):
            _log.warning("%s does not accept %s (%s): it is sent again", self._target, result.id, self.error)

    def _give_up(self, number: int, result: Result, body: str) -> None:
        query, reason = self._subscription.query, str(self.error)
        letter = DeadLetter(
            result.id, "webhook", query, str(self._target), [body], result.timestamp, self._attempts, reason
        )
        self._subscription.give_up(number, letter)
        self.dead += 1
        _log.error(
            "%s has refused %s %s times (%s): it is in dead_letters", self._target, result.id, self._attempts, reason
        )
