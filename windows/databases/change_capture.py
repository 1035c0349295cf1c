"""How other programs' changes of tables reach the bridge, and how it tells them of results: triggers and NOTIFY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from windows.databases.refused import Refused
from windows.databases.triggers import ChangeOutbox, ChangeTriggers, OutboxColumn
from windows.sql import table_of

if TYPE_CHECKING:
    from windows.databases.listener import Listener


class ChangeCapture:
    """What a database offers to a bridge that watches tables which other programs write.

    The defaults are those of a database that offers nothing.
    """

    dialect: ClassVar[str]
    title: ClassVar[str]

    def quoted(self, name: str) -> str:
        """A name, quoted, in the database's SQL."""
        raise NotImplementedError

    has_notify: ClassVar[bool] = False
    """True if there is NOTIFY."""

    def notify(self, channel: str, text: str) -> None:
        """Sends a text to all that listen to a channel. Raises `Refused`."""
        raise Refused(f"{self.title} has no NOTIFY")

    def listener(self) -> Listener | None:
        """A listener to NOTIFY on the channel `cep_bridge`; None if the database has none. Raises `Refused`."""
        return None

    def data_version(self) -> Any:
        """A value that changes with each commit of any connection; None if only reading the tables shows changes."""
        return None

    identity: ClassVar[str] = ""
    """The type of a column that numbers the rows of a table, each number once."""

    def change_triggers(
        self, table: str, outbox: str, columns: Sequence[OutboxColumn], time: OutboxColumn | None
    ) -> ChangeTriggers:
        """Triggers that write changes of a user's table to an outbox; `time`: the column with a change's time, if any."""
        raise Refused(f"{self.title} has no triggers that could record the changes of {table}: use SQLite or a server")

    def _outbox(
        self, table: str, schema: str, outbox: str, columns: Sequence[OutboxColumn], time: OutboxColumn | None
    ) -> ChangeOutbox:
        """The outbox for the triggers of this database; `schema`: where it is, quoted and with a dot, or nothing."""
        return ChangeOutbox(
            table_of(table).sql(self.dialect, identify=True), schema, outbox, columns, time, self.quoted
        )
