"""The first schema of the state file: tables, indexes, and statistics for SQLite's query planner."""

from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Columns: TypeAlias = "list[sa.Column[Any]]"

COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")
RAN = sa.text("wallclock_s IS NOT NULL")
STATISTIC = sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:tbl, :idx, :stat)")
ALIKE = (  # for each index: number of rows, then numbers of rows with equal first column, first two columns ...
    ("campaign_attempts", "campaign_attempts", "1000000 100000 1 1"),
    ("campaign_attempts", "campaign_attempts_array", "1000000 100000 1000 1 1"),
    ("campaign_attempts", "campaign_attempts_ran", "1000000 100000 1000 1 1"),
    ("campaign_arrays", "sqlite_autoindex_campaign_arrays_1", "100000 10000 1"),
    ("campaign_arrays", "campaign_arrays_state", "100000 10"),
    ("campaign_arrays", "campaign_arrays_copies", "100000 10000 100"),
    ("campaign_arrays", "campaign_arrays_cluster", "100000 10000 1000 1"),
)
PLACE = ("campaign", "array", "place")  # the key of a task that was sent


def upgrade() -> None:
    """Create all tables and indexes of the state file."""
    _transfers()
    _moves()
    _accounting()
    _decisions()
    _answers()
    _campaigns()
    _campaign_arrays()
    _campaign_attempts()
    _campaign_marks()
    _campaign_events()
    _campaign_speeds()
    _subscriptions()
    _nodes()
    _rebalancing()
    if op.get_bind().dialect.name == "sqlite":
        _statistics()


def _transfers() -> None:
    op.create_table(
        "transfers",
        *_text_key("name"),
        *_number_key("uid"),
        *_text("cluster"),
        *_number("job", "task"),
        *_text("owner", "remote", "queue", "phase", "record", "wake", "rerun"),
        *_moment("created_at", "updated_at"),
        *_number("remote_id"),
        *_text("desired", "local_state", "remote_state", "remote_host"),
        *_moment("since", nullable=True),
        *_number("missed_polls"),
        *_moment("missing_since", "seen_at", nullable=True),
        sa.Column("verdict", sa.Text),
        *_moment("closed_at", nullable=True),
        sa.Column("pinned", sa.Boolean, nullable=False),
        *_text("reason"),
        *_text("claim", "claimed", "cause", "listed", default=""),
        *_text("guard", default="hold"),
        *_flag("reguarded"),
    )
    op.create_index("transfers_closed_at", "transfers", ["closed_at"])
    op.create_index("transfers_task", "transfers", ["cluster", "job", "task"])
    op.create_table("events", *_counted("id"), *_text("name"), *_number("uid"), *_moment("at"), *_text("text"))
    op.create_index("events_transfer", "events", ["name", "uid"])


def _moves() -> None:
    op.create_table(
        "transfer_moves",
        *_text_key("name"),
        *_number_key("uid"),
        *_text("source", "target"),
        *_moment("asked_at"),
        *_text("stage", "reason"),
        *_number("slots", default="1"),
    )


def _accounting() -> None:
    op.create_table(
        "cursors",
        *_text_key("cluster"),
        *_text("path", "device", "inode"),
        *_number("offset"),
        *_text("tail"),
        *_number("skipped"),
    )
    op.create_table(
        "remote_records",
        *_text_key("cluster", "mark", "transfer"),
        *_text("source", "home", "owner", "queue", "host"),
        *_number("job", "task", "job_id"),
        *_moment("kept_at"),
        *_moment("submitted_at", "started_at", "ended_at", nullable=True),
        *_number("failed", "exit_status", nullable=True),
        *_amount("wallclock_s", "user_s", "system_s", "max_rss_kb", nullable=True),
        *_text("pe_task", default=""),
    )
    op.create_index("remote_records_task", "remote_records", ["home", "job", "task"])
    op.create_index("remote_records_kept_at", "remote_records", ["kept_at"])


def _decisions() -> None:
    op.create_table(
        "snapshots",
        *_counted("id"),
        *_text("cluster"),
        *_moment("taken_at"),
        sa.Column("ok", sa.Boolean, nullable=False),
        *_amount("took_s"),
        *_text("summary"),
    )
    op.create_table("decisions", *_counted("id"), *_moment("at"), *_text("program", "sentence", "inputs"))


def _answers() -> None:
    op.create_table(
        "answers",
        *_text_key("cluster"),
        *_text("place"),
        *_moment("asked_at"),
        *_amount("every_s"),
        *_text("covers", "trouble", "digest"),
    )
    content = sa.Column("content", sa.LargeBinary, nullable=False)
    op.create_table("answer_contents", *_text_key("cluster"), *_text("digest"), content)


def _campaigns() -> None:
    op.create_table(
        "campaigns",
        *_counted("number"),
        *_number("uid"),
        *_text("owner", "state"),
        *_moment("submitted_at"),
        *_number("tasks", "ended", "failed"),
        *_text("token", "digest", "jdl"),
        *_moment("ended_at", nullable=True),
        *_flag("is_end_noted"),
        sa.UniqueConstraint("token"),
    )
    op.create_table(
        "campaign_parts",
        *_number_key("campaign", "number"),
        *_number("tasks"),
        *_text("digest", "token"),
        sa.UniqueConstraint("token"),
    )
    op.create_table("campaign_requests", *_text_key("token"), *_number_key("campaign"), *_moment("done_at"))
    op.create_table(
        "campaign_waiting",
        *_number_key("campaign", "first"),
        *_number("last", "attempt", "priority"),
        *_text("avoid", "never", default=""),
    )


def _campaign_arrays() -> None:
    op.create_table(
        "campaign_arrays",
        *_number_key("campaign", "number"),
        *_text("cluster", "state"),
        *_number("size", "job_id"),
        *_moment("intended_at"),
        *_flag("is_repeated"),
        *_number("copies_beyond_s", nullable=True),
    )
    op.create_index("campaign_arrays_state", "campaign_arrays", ["state"])
    op.create_index("campaign_arrays_copies", "campaign_arrays", ["campaign", "copies_beyond_s"])
    of_cluster = ["campaign", "cluster", "number"]
    op.create_index("campaign_arrays_cluster", "campaign_arrays", of_cluster)


def _campaign_attempts() -> None:
    op.create_table(
        "campaign_attempts",
        *_number_key("campaign", "task", "attempt"),
        *_number("array", "place"),
        *_text("outcome"),
        *_number("exit_status", "wallclock_s", nullable=True),
        *_flag("is_past", "is_overrun"),
        sqlite_with_rowid=False,
    )
    op.create_index("campaign_attempts_array", "campaign_attempts", ["campaign", "array"])
    op.create_index(
        "campaign_attempts_ran", "campaign_attempts", ["campaign", "array"], sqlite_where=RAN, postgresql_where=RAN
    )


def _campaign_marks() -> None:
    op.create_table("campaign_marks", *_number_key(*PLACE), *_text("wiped_for"))
    op.create_table("campaign_missing", *_number_key(*PLACE), *_moment("since"))
    op.create_table(
        "campaign_ways",
        *_number_key(*PLACE),
        *_text("cluster"),
        *_number("job", "task"),
        *_text("lacked"),
        *_moment("at"),
    )
    op.create_index("ix_campaign_ways_at", "campaign_ways", ["at"])


def _campaign_events() -> None:
    op.create_table(
        "campaign_events",
        *_counted("number"),
        *_text("kind", "code"),
        *_number("campaign"),
        *_text("cluster"),
        *_number("exit_status", nullable=True),
        *_number("tasks"),
        *_number("first_task", nullable=True),
        *_moment("opened_at", "last_at"),
        *_number("probes"),
        *_moment("until", "closed_at", nullable=True),
        *_text("host", "closed_by", "why", default=""),
    )
    op.create_index("campaign_events_what", "campaign_events", ["campaign", "code", "cluster"])
    op.create_index("campaign_events_closed_at", "campaign_events", ["closed_at"])


def _campaign_speeds() -> None:
    op.create_table(
        "campaign_records",
        *_at_cluster(),
        *_number("errors_in_row", "successes"),
        *_text("durations_s"),
        sa.Column("is_trusted", sa.Boolean, nullable=False),
        *_text("error_host", default=""),
        *_number("wiped_in_row", default="0"),
    )
    op.create_table("campaign_ratios", *_at_cluster(), *_amount("ratio"), *_number("free", "submitted"))
    op.create_table(
        "campaign_ends", *_at_cluster(), sa.Column("minute", sa.String(32), primary_key=True), *_number("ended")
    )
    op.create_table("campaign_usage", *_at_cluster(), *_moment("at"), *_amount("used_s", "success_s", "successes"))
    op.create_table(
        "campaign_forecasts",
        *_number_key("campaign"),
        *_moment("made_at", "p50_at", "p90_at"),
        *_moment("ended_at", nullable=True),
    )


def _subscriptions() -> None:
    op.create_table(
        "campaign_subscriptions",
        *_counted("number"),
        *_number("uid"),
        *_text("owner", "way", "identity", "severity", "token"),
        *_moment("told_until"),
        *_number("tries"),
        *_moment("next_at"),
        sa.UniqueConstraint("uid", "way", "identity", name="campaign_subscriptions_whose"),
    )


def _nodes() -> None:
    op.create_table(
        "balance_nodes",
        *_text_key("name", "machine"),
        *_text("pool", "state", "address", "host_key", "step", "cause"),
        *_moment("since"),
        *_moment("up_since", "idle_since", nullable=True),
        sa.Column("is_kept", sa.Boolean, nullable=False),
    )
    op.create_table("balance_facts", *_text_key("key"), *_text("value"))


def _rebalancing() -> None:
    op.create_table("rebalance_notes", *_text_key("kind", "name"), *_moment("at"))
    op.create_table(
        "carried_replicas",
        *_text_key("token"),
        *_text("dataset", "target", "source"),
        *_number("size_bytes"),
        *_moment("began_at"),
        *_moment("ended_at", nullable=True),
        *_text("why"),
    )


def _statistics() -> None:
    """Write row statistics for SQLite's query planner, so that no cycle reads all tasks of a campaign.

    Without statistics SQLite reads a whole campaign to find the attempts of one array
    (sqlite.org/optoverview.html). ANALYZE of a small table creates the table of statistics.
    """
    op.execute("ANALYZE alembic_version")
    op.execute("DELETE FROM sqlite_stat1")
    for tbl, idx, stat in ALIKE:
        op.execute(STATISTIC.bindparams(tbl=tbl, idx=idx, stat=stat))
    op.execute("ANALYZE sqlite_schema")  # makes this connection read the statistics again


def _at_cluster() -> Columns:
    return [*_number_key("campaign"), *_text_key("cluster")]


def _counted(name: str) -> Columns:
    return [sa.Column(name, COUNTED, primary_key=True)]


def _number_key(*names: str) -> Columns:
    return [sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False) for name in names]


def _text_key(*names: str) -> Columns:
    return [sa.Column(name, sa.Text, primary_key=True) for name in names]


def _number(*names: str, nullable: bool = False, default: str | None = None) -> Columns:
    return [sa.Column(name, sa.BigInteger, nullable=nullable, server_default=default) for name in names]


def _text(*names: str, default: str | None = None) -> Columns:
    return [sa.Column(name, sa.Text, nullable=False, server_default=default) for name in names]


def _amount(*names: str, nullable: bool = False) -> Columns:
    return [sa.Column(name, sa.Float, nullable=nullable) for name in names]


def _moment(*names: str, nullable: bool = False) -> Columns:
    return [sa.Column(name, sa.String(32), nullable=nullable) for name in names]


def _flag(*names: str) -> Columns:
    no = sa.false()
    return [sa.Column(name, sa.Boolean, nullable=False, server_default=no) for name in names]
