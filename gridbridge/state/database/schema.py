"""The tables of the state file, and how values lie in them.

A time is ISO 8601 text in UTC with microseconds: of equal length, so that it sorts as time, exact,
and readable by the administrator who opens the file with sqlite3(1). Every change here needs a
migration (state/migrations) and a new HEAD.
"""

from datetime import UTC, datetime
from string import printable
from urllib.parse import quote, unquote

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

from gridbridge.model import lines, message
from gridbridge.model.message import Message

HEAD = "0008"  # the newest migration
_PLAIN = printable.replace("%", "")


class Moment(TypeDecorator[datetime]):
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


class Words(TypeDecorator[str]):
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


class Verdict(TypeDecorator[Message]):
    """A message as it lies in the spool, but of any length."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Message | None, dialect: Dialect) -> str | None:
        """Write it; a message without a value is empty text."""
        return None if value is None else message.encode(value).decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> Message | None:
        """Read it."""
        if value is None:
            return None
        return Message(**lines.decode(value.encode("ascii"), message.KEYS)) if value else Message()


METADATA = MetaData()

# SQLite counts up by itself only what it calls an INTEGER PRIMARY KEY.
_COUNTED = BigInteger().with_variant(Integer, "sqlite")

TRANSFERS = Table(
    "transfers",
    METADATA,
    Column("name", Words, primary_key=True),
    Column("uid", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Words, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("owner", Words, nullable=False),
    Column("remote", Words, nullable=False),
    Column("queue", Words, nullable=False),
    Column("phase", Words, nullable=False),
    Column("record", Words, nullable=False),
    Column("wake", Words, nullable=False),
    Column("rerun", Words, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("remote_id", BigInteger, nullable=False),
    Column("desired", Words, nullable=False),
    Column("local_state", Words, nullable=False),
    Column("remote_state", Words, nullable=False),
    Column("remote_host", Words, nullable=False),
    Column("since", Moment),
    Column("missed_polls", BigInteger, nullable=False),
    Column("missing_since", Moment),
    Column("seen_at", Moment),
    Column("verdict", Verdict),
    Column("closed_at", Moment),
    Column("pinned", Boolean, nullable=False),
    Column("claim", Words, nullable=False),
    Column("claimed", Words, nullable=False),
    Column("guard", Words, nullable=False),
    Column("reguarded", Boolean, nullable=False),
    Column("reason", Words, nullable=False),
    *(Column(name, Words, nullable=False) for name in ("cause", "listed")),
    Index("transfers_closed_at", "closed_at"),
    Index("transfers_task", "cluster", "job", "task"),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("id", _COUNTED, primary_key=True),
    Column("name", Words, nullable=False),
    Column("uid", BigInteger, nullable=False),
    Column("at", Moment, nullable=False),
    Column("text", Words, nullable=False),
    Index("events_transfer", "name", "uid"),
)

SNAPSHOTS = Table(
    "snapshots",
    METADATA,
    Column("id", _COUNTED, primary_key=True),
    Column("cluster", Words, nullable=False),
    Column("taken_at", Moment, nullable=False),
    Column("ok", Boolean, nullable=False),
    Column("took_s", Float, nullable=False),
    Column("summary", Text, nullable=False),
)

DECISIONS = Table(
    "decisions",
    METADATA,
    Column("id", _COUNTED, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("program", Words, nullable=False),
    Column("sentence", Words, nullable=False),
    Column("inputs", Text, nullable=False),
)

CURSORS = Table(
    "cursors",
    METADATA,
    Column("cluster", Words, primary_key=True),
    Column("path", Words, nullable=False),
    Column("device", Text, nullable=False),  # 64 bits without a sign: more than SQL's numbers
    Column("inode", Text, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("tail", Text, nullable=False),
    Column("skipped", BigInteger, nullable=False),
)

REMOTE_RECORDS = Table(
    "remote_records",
    METADATA,
    Column("cluster", Words, primary_key=True),
    Column("mark", Words, primary_key=True),
    Column("transfer", Words, primary_key=True),
    Column("source", Words, nullable=False),
    *(Column(name, Words, nullable=False) for name in ("home", "owner", "queue", "host")),
    *(Column(name, BigInteger, nullable=False) for name in ("job", "task", "job_id")),
    Column("pe_task", Words, nullable=False),
    Column("kept_at", Moment, nullable=False),
    *(Column(name, Moment) for name in ("submitted_at", "started_at", "ended_at")),
    *(Column(name, BigInteger) for name in ("failed", "exit_status")),
    *(Column(name, Float) for name in ("wallclock_s", "user_s", "system_s", "max_rss_kb")),
    Index("remote_records_task", "home", "job", "task"),
    Index("remote_records_kept_at", "kept_at"),
)
