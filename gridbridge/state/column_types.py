"""The column types of the state file's tables; each change of a table needs a migration.

Times are ISO 8601 texts in UTC with microseconds, all of one length, so that they sort by time.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from string import printable
from typing import Any
from urllib.parse import quote, unquote

import sqlalchemy as sa

from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.job_and_queue_states import UNSEEN, JobState
from gridbridge.model.transfer_messages_in_spool import TransferMessage

_PLAIN = printable.replace("%", "")


class UtcTimeColumn(sa.TypeDecorator[datetime]):
    """A column for times with a time zone, stored as texts in UTC."""

    impl = sa.String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> str | None:
        """Encode the time in UTC; raise ValueError for a time without a time zone."""
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


class PrintableTextColumn(sa.TypeDecorator[str]):
    """A column of users' texts; all but printable ASCII becomes `%XX`, as databases refuse some bytes."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else quote(value, safe=_PLAIN, errors="surrogatepass")

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else unquote(value, errors="surrogatepass")


class EnumWordColumn(sa.TypeDecorator[StrEnum]):
    impl = sa.Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> StrEnum | None:
        """Decode the word; raise ValueError for a word that the enum lacks."""
        return None if value is None else self.words(value)


class TransferMessageColumn(sa.TypeDecorator[TransferMessage]):
    """A column for starters' messages of any length, stored in the format of spool files."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: TransferMessage | None, dialect: sa.Dialect) -> str | None:
        """Encode the message; a message without fields is empty text."""
        return None if value is None else transfer_messages_in_spool.encode_transfer_message(value).decode("ascii")

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> TransferMessage | None:
        if not value:
            return None if value is None else TransferMessage()
        fields = transfer_messages_in_spool.decode_key_value_lines(
            value.encode("ascii"), transfer_messages_in_spool.KEYS
        )
        return TransferMessage(**fields)


class JobStateColumn(sa.TypeDecorator[JobState]):
    """A column for job states: facts, a blank and a text for people; empty for a job in no list."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: JobState | None, dialect: sa.Dialect) -> str | None:
        if value is None or not value.is_listed:
            return None if value is None else ""
        text = quote(value.text, safe=_PLAIN, errors="surrogatepass")
        return f"{','.join(sorted(value.facts))} {text}"

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> JobState | None:
        if not value:
            return None if value is None else UNSEEN
        facts, _, text = value.partition(" ")
        return JobState(facts.split(","), unquote(text, errors="surrogatepass"))


def to_json_text(value: object) -> str:
    """Return a value as JSON text; values without a JSON type become strings."""
    return json.dumps(value, sort_keys=True, default=str)


class JsonColumn(sa.TypeDecorator[Mapping[str, object]]):
    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, object] | None, dialect: sa.Dialect) -> str:
        return to_json_text(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        return None if value is None else json.loads(value)


METADATA = sa.MetaData()  # has the tables of all imported modules

# SQLite numbers new rows itself only if the primary key has type INTEGER.
COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def row_number_column(name: str) -> sa.Column[Any]:
    """Return a primary key column that the database fills with row numbers."""
    return sa.Column(name, COUNTED, primary_key=True)


def integer_key_columns(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False) for name in names]


def text_key_columns(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, PrintableTextColumn, primary_key=True) for name in names]


def integer_columns(*names: str, nullable: bool = False, default: str | None = None) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger, nullable=nullable, server_default=default) for name in names]


def text_columns(*names: str, default: str | None = None) -> list[sa.Column[Any]]:
    return [sa.Column(name, PrintableTextColumn, nullable=False, server_default=default) for name in names]


def float_columns(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Float, nullable=nullable) for name in names]


def time_columns(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, UtcTimeColumn, nullable=nullable) for name in names]


def flag_columns(*names: str) -> list[sa.Column[Any]]:
    """Return boolean columns that are false unless set."""
    return [sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false()) for name in names]
