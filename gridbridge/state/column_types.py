"""The column types of the state file's tables.

Times are ISO 8601 texts in UTC with microseconds. The fixed length makes the texts sort by time.
Each change of a table needs a migration (gridbridge/state/migrations).
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from string import printable
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import BigInteger, Dialect, Integer, MetaData, String, Text, TypeDecorator

from gridbridge.model import transfer_message
from gridbridge.model.states import UNSEEN, JobState
from gridbridge.model.transfer_message import TransferMessage

_PLAIN = printable.replace("%", "")


class UtcTimeColumn(TypeDecorator[datetime]):
    """A time with a time zone, stored as text in UTC."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Encode the time in UTC; raise ValueError for a time without a time zone."""
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """Decode the time."""
        return None if value is None else datetime.fromisoformat(value)


class PrintableTextColumn(TypeDecorator[str]):
    """A text, in which characters other than printable ASCII are stored as `%XX`.

    Texts of users may contain NULs or invalid UTF-8, which SQLite or PostgreSQL would refuse.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Encode the text."""
        return None if value is None else quote(value, safe=_PLAIN, errors="surrogatepass")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Decode the text."""
        return None if value is None else unquote(value, errors="surrogatepass")


class TransferMessageColumn(TypeDecorator[TransferMessage]):
    """A starter's message, of any length, in the format of spool files."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: TransferMessage | None, dialect: Dialect) -> str | None:
        """Encode the message; a message without fields is empty text."""
        return None if value is None else transfer_message.encode_transfer_message(value).decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> TransferMessage | None:
        """Decode the message."""
        if value is None:
            return None
        return (
            TransferMessage(**transfer_message.decode_key_value_lines(value.encode("ascii"), transfer_message.KEYS))
            if value
            else TransferMessage()
        )


class JobStateColumn(TypeDecorator[JobState]):
    """The state of a job: facts, a blank, and a text for people; empty for a job in no list."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: JobState | None, dialect: Dialect) -> str | None:
        """Encode the state."""
        if value is None or not value.is_listed:
            return None if value is None else ""
        text = quote(value.text, safe=_PLAIN, errors="surrogatepass")
        return f"{','.join(sorted(value.facts))} {text}"

    def process_result_value(self, value: str | None, dialect: Dialect) -> JobState | None:
        """Decode the state."""
        if not value:
            return None if value is None else UNSEEN
        facts, _, text = value.partition(" ")
        return JobState(facts.split(","), unquote(text, errors="surrogatepass"))


def to_json_text(value: object) -> str:
    """Return a value as JSON text; values without a JSON type become strings."""
    return json.dumps(value, sort_keys=True, default=str)


class JsonColumn(TypeDecorator[Mapping[str, object]]):
    """A value of any JSON type."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, object] | None, dialect: Dialect) -> str:
        """Encode the value as JSON."""
        return to_json_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Decode the JSON text."""
        return None if value is None else json.loads(value)


METADATA = MetaData()  # the tables of all imported modules

# SQLite numbers rows automatically only for an INTEGER PRIMARY KEY.
COUNTED = BigInteger().with_variant(Integer, "sqlite")
