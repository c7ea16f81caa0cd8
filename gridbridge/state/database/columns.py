"""How values lie in the tables of the state file.

A time is ISO 8601 text in UTC with microseconds: of equal length, so that it sorts as time, exact,
and readable by the administrator who opens the file with sqlite3(1). A group of tables is a module
of its own beside this one; every change of a table needs a migration (state/migrations).
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from string import printable
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import (
    BigInteger,
    Dialect,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
)

from gridbridge.model import key_value_lines, message
from gridbridge.model.message import StarterMessage
from gridbridge.model.states import UNSEEN, JobState

_PLAIN = printable.replace("%", "")


class MomentColumn(TypeDecorator[datetime]):
    """An aware time."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """Write it in UTC; a naive time is a mistake of ours."""
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        """Read it."""
        return None if value is None else datetime.fromisoformat(value)


class PrintableText(TypeDecorator[str]):
    """Any text, as in messages: what is not printable ASCII is `%XX`.

    People's texts carry bytes that are not UTF-8 (as surrogates) and NULs, which SQLite or
    PostgreSQL would refuse; such a refusal would stop the service.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Write it."""
        return None if value is None else quote(value, safe=_PLAIN, errors="surrogatepass")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Read it."""
        return None if value is None else unquote(value, errors="surrogatepass")


class VerdictColumn(TypeDecorator[StarterMessage]):
    """A message as it lies in the spool, but of any length."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: StarterMessage | None, dialect: Dialect) -> str | None:
        """Write it; a message without a value is empty text."""
        return None if value is None else message.encode(value).decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> StarterMessage | None:
        """Read it."""
        if value is None:
            return None
        return (
            StarterMessage(**key_value_lines.decode(value.encode("ascii"), message.KEYS))
            if value
            else StarterMessage()
        )


class JobStateColumn(TypeDecorator[JobState]):
    """A job's state: its facts, a blank, and the text for people; empty while not listed."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: JobState | None, dialect: Dialect) -> str | None:
        """Write it."""
        if value is None or not value.is_listed:
            return None if value is None else ""
        text = quote(value.text, safe=_PLAIN, errors="surrogatepass")
        return f"{','.join(sorted(value.facts))} {text}"

    def process_result_value(self, value: str | None, dialect: Dialect) -> JobState | None:
        """Read it."""
        if not value:
            return None if value is None else UNSEEN
        facts, _, text = value.partition(" ")
        return JobState(facts.split(","), unquote(text, errors="surrogatepass"))


def written(value: object) -> str:
    """Return a value as it lies in a column of JSON; what JSON does not have is text."""
    return json.dumps(value, sort_keys=True, default=str)


class JsonColumn(TypeDecorator[Mapping[str, object]]):
    """Words and numbers of any shape, for people and for programs."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, object] | None, dialect: Dialect) -> str:
        """Write it."""
        return written(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Read it."""
        return None if value is None else json.loads(value)


METADATA = MetaData()  # all tables whose modules are loaded

# SQLite counts up by itself only what it calls an INTEGER PRIMARY KEY.
COUNTED = BigInteger().with_variant(Integer, "sqlite")
