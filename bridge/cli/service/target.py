"""The target of a webhook."""

from __future__ import annotations

import contextlib
import http.client
import urllib.parse

from bridge.errors import SourceError
from windows.databases.urls import without_password

ANSWERS_WITHIN = 10.0
"""The seconds to wait for an answer."""


class Target:
    """The target of results.

    >>> print(Target("https://example.org:8443/hook?kind=alert"))
    https://example.org:8443/hook?kind=alert
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            self._port = parts.port
        except ValueError as error:
            raise SourceError(f"--webhook {without_password(url)}: {error}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError(f"--webhook {without_password(url)}: the URL begins with http:// or https:// and a host")
        self._host, self._is_secure = parts.hostname, parts.scheme == "https"
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._url = url

    def __str__(self) -> str:
        return without_password(self._url)

    def post(self, body: str, key: str) -> int:
        """Posts a JSON body with the key that identifies it; returns the status of the answer."""
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        headers = {"Content-Type": "application/json", "Idempotency-Key": key, "User-Agent": "cepbridge"}
        with contextlib.closing(kind(self._host, self._port, timeout=ANSWERS_WITHIN)) as connection:
            connection.request("POST", self._path, body.encode(), headers)
            return connection.getresponse().status
