"""The process of `cepbridge watch`: opens the bridge, deploys the scripts, and reads tables until a signal ends it."""

from __future__ import annotations

import copy
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

import bridge
from bridge.cli.service.health import Monitor, serve
from bridge.cli.service.outputs import WEBHOOK, Outputs, refuse_notify
from bridge.cli.service.settings import WITHOUT_TABLE, WatchSettings
from bridge.cli.service.webhooks import Webhook
from bridge.engine.session import session_of
from bridge.engine.subscription import Subscription
from bridge.errors import DatabaseError, SchemaError
from bridge.history.deployment import Deployment

ENDS_WITHIN = 0.8
"""The seconds after a signal in which the current transaction may end; otherwise it is not committed."""

FIRST, LONGEST = 0.5, 30.0
"""The seconds until a lost bridge is opened again: at first, and at most; they double each time."""

_log = logging.getLogger("bridge.watch")


class Service:
    """Runs until SIGTERM or SIGINT. Once a bridge was opened, it is opened again whenever the database was away."""

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._ending = threading.Event()
        self._cep: bridge.Bridge | None = None
        self._monitor = Monitor()
        self._opened = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """Returns after a signal.

        Raises:
            BridgeError: The bridge cannot be opened at first, or a query is wrong.
            BrokenPipeError: The reader of standard output has closed it.
        """
        log_to_standard_error(self._monitor.errors)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end_soon)
        if self._settings.health is not None:
            port = serve(self._monitor, self._settings.health)
            _log.info("health is shown at http://127.0.0.1:%s/", port)
        thread = threading.Thread(target=self._try_to_run, name="watch", daemon=True)
        thread.start()
        while thread.is_alive():  # signal handlers run in this thread; a driver may be busy for long in the other
            thread.join(0.5)
        if self._error is not None:
            raise self._error
        _log.info("ended")

    def _try_to_run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._error = error

    def _run(self) -> None:
        pause = FIRST
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                self._open_and_watch()
            except (DatabaseError, SchemaError) as error:
                self._monitor.lose()
                if not self._opened:
                    raise
                pause = FIRST if time.monotonic() - began > LONGEST else min(LONGEST, pause * 2)
                _log.error("%s; it is opened again in %.0f s", error, pause)
                self._ending.wait(pause)

    def _open_and_watch(self) -> None:
        settings = self._settings
        with bridge.connect(settings.url, clock="system", **settings.connection) as cep:
            self._cep = cep
            try:
                self._watch(cep)
            finally:
                self._cep = None

    def _watch(self, cep: bridge.Bridge) -> None:
        settings = self._settings
        refuse_notify(cep, settings)
        for name, url in settings.datastores.items():
            cep.register_datastore(name, url)
        Deployment(cep, settings.scripts, settings.into, settings.on_error, _log.info).deploy(removes=not settings.keep)
        for name in settings.without_table:
            _log.warning("the stream %s %s", name, WITHOUT_TABLE)
        outputs = Outputs(cep, settings)
        outputs.attach()
        webhooks = [
            Webhook(Subscription(cep, query, WEBHOOK), target, settings.attempts)
            for query in cep.queries
            if (target := settings.webhook_of(query)) is not None
        ]
        for webhook in webhooks:
            webhook.start()
        self._opened = True
        _log.info("started on %r: %s streams, %s queries", session_of(cep).database, len(cep.streams), len(cep.queries))
        self._monitor.follow(cep, webhooks)
        try:
            if not self._ending.is_set():
                cep.run(settings.poll)
        finally:
            for webhook in webhooks:
                webhook.end(0.1)
        if outputs.broken is not None:
            raise outputs.broken

    def _end_soon(self, *_: Any) -> None:
        """Handles a signal. A thread does the rest, as the interrupted thread may hold a lock."""
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self._ending.set()
        if (cep := self._cep) is not None:
            cep.stop()
        time.sleep(ENDS_WITHIN)
        _log.warning("ended within a transaction, which is not committed")
        sys.stderr.flush()
        os._exit(0)


def log_to_standard_error(*others: logging.Handler) -> None:
    """Configures the bridge's loggers to write lines with the time to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("bridge")
    logger.setLevel(logging.INFO)
    for each in (handler, *others):
        logger.addHandler(each)


class _Lines(logging.Formatter):
    """One line per record, without tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy.copy(record)  # other handlers show the traceback
        record.exc_info = record.exc_text = None
        return super().format(record).replace("\n", " ")
