"""The first schema of the state file: tables, indexes, and statistics for SQLite's query planner."""

import sqlalchemy as sa
from alembic import op

from gridbridge.state.column_types import (
    UtcTimeColumn,
    flag_columns,
    float_columns,
    integer_columns,
    integer_key_columns,
    row_number_column,
    text_columns,
    text_key_columns,
    time_columns,
)

revision = "0001"
down_revision = None

RAN = sa.text("wallclock_s IS NOT NULL")
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
    _accounting()
    _decisions()
    _campaigns()
    _campaign_arrays()
    _campaign_marks()
    _campaign_speeds()
    _subscriptions()
    _nodes()
    if op.get_bind().dialect.name == "sqlite":
        _statistics()


def _transfers() -> None:
    op.create_table(
        "transfers",
        *text_key_columns("name"),
        *integer_key_columns("uid"),
        *text_columns("cluster"),
        *integer_columns("job", "task"),
        *text_columns("owner", "remote", "queue", "phase", "record", "wake", "rerun"),
        *time_columns("created_at", "updated_at"),
        *integer_columns("remote_id"),
        *text_columns("desired", "local_state", "remote_state", "remote_host"),
        *time_columns("since", nullable=True),
        *integer_columns("missed_polls"),
        *time_columns("missing_since", "seen_at", nullable=True),
        sa.Column("verdict", sa.Text),
        *time_columns("closed_at", nullable=True),
        sa.Column("pinned", sa.Boolean, nullable=False),
        *text_columns("reason"),
        *text_columns("claim", "claimed", "cause", "listed", default=""),
        *text_columns("guard", default="hold"),
        *flag_columns("reguarded"),
    )
    op.create_index("transfers_closed_at", "transfers", ["closed_at"])
    op.create_index("transfers_task", "transfers", ["cluster", "job", "task"])
    op.create_table(
        "events",
        row_number_column("id"),
        *text_columns("name"),
        *integer_columns("uid"),
        *time_columns("at"),
        *text_columns("text"),
    )
    op.create_index("events_transfer", "events", ["name", "uid"])
    op.create_table(
        "transfer_moves",
        *text_key_columns("name"),
        *integer_key_columns("uid"),
        *text_columns("source", "target"),
        *time_columns("asked_at"),
        *text_columns("stage", "reason"),
        *integer_columns("slots", default="1"),
    )


def _accounting() -> None:
    op.create_table(
        "cursors",
        *text_key_columns("cluster"),
        *text_columns("path", "device", "inode"),
        *integer_columns("offset"),
        *text_columns("tail"),
        *integer_columns("skipped"),
    )
    op.create_table(
        "remote_records",
        *text_key_columns("cluster", "mark", "transfer"),
        *text_columns("source", "home", "owner", "queue", "host"),
        *integer_columns("job", "task", "job_id"),
        *time_columns("kept_at"),
        *time_columns("submitted_at", "started_at", "ended_at", nullable=True),
        *integer_columns("failed", "exit_status", nullable=True),
        *float_columns("wallclock_s", "user_s", "system_s", "max_rss_kb", nullable=True),
        *text_columns("pe_task", default=""),
    )
    op.create_index("remote_records_task", "remote_records", ["home", "job", "task"])
    op.create_index("remote_records_kept_at", "remote_records", ["kept_at"])


def _decisions() -> None:
    op.create_table(
        "snapshots",
        row_number_column("id"),
        *text_columns("cluster"),
        *time_columns("taken_at"),
        sa.Column("ok", sa.Boolean, nullable=False),
        *float_columns("took_s"),
        *text_columns("summary"),
    )
    op.create_table(
        "decisions", row_number_column("id"), *time_columns("at"), *text_columns("program", "sentence", "inputs")
    )
    op.create_table(
        "answers",
        *text_key_columns("cluster"),
        *text_columns("place"),
        *time_columns("asked_at"),
        *float_columns("every_s"),
        *text_columns("covers", "trouble", "digest"),
    )
    content = sa.Column("content", sa.LargeBinary, nullable=False)
    op.create_table("answer_contents", *text_key_columns("cluster"), *text_columns("digest"), content)


def _campaigns() -> None:
    op.create_table(
        "campaigns",
        row_number_column("number"),
        *integer_columns("uid"),
        *text_columns("owner", "state"),
        *time_columns("submitted_at"),
        *integer_columns("tasks", "ended", "failed"),
        *text_columns("token", "digest", "jdl"),
        *time_columns("ended_at", nullable=True),
        *flag_columns("is_end_noted"),
        sa.UniqueConstraint("token"),
    )
    op.create_table(
        "campaign_parts",
        *integer_key_columns("campaign", "number"),
        *integer_columns("tasks"),
        *text_columns("digest", "token"),
        sa.UniqueConstraint("token"),
    )
    op.create_table(
        "campaign_requests", *text_key_columns("token"), *integer_key_columns("campaign"), *time_columns("done_at")
    )
    op.create_table(
        "campaign_waiting",
        *integer_key_columns("campaign", "first"),
        *integer_columns("last", "attempt", "priority"),
        *text_columns("avoid", "never", default=""),
    )


def _campaign_arrays() -> None:
    op.create_table(
        "campaign_arrays",
        *integer_key_columns("campaign", "number"),
        *text_columns("cluster", "state"),
        *integer_columns("size", "job_id"),
        *time_columns("intended_at"),
        *flag_columns("is_repeated"),
        *integer_columns("copies_beyond_s", nullable=True),
    )
    op.create_index("campaign_arrays_state", "campaign_arrays", ["state"])
    op.create_index("campaign_arrays_copies", "campaign_arrays", ["campaign", "copies_beyond_s"])
    op.create_index("campaign_arrays_cluster", "campaign_arrays", ["campaign", "cluster", "number"])
    op.create_table(
        "campaign_attempts",
        *integer_key_columns("campaign", "task", "attempt"),
        *integer_columns("array", "place"),
        *text_columns("outcome"),
        *integer_columns("exit_status", "wallclock_s", nullable=True),
        *flag_columns("is_past", "is_overrun"),
        sqlite_with_rowid=False,
    )
    op.create_index("campaign_attempts_array", "campaign_attempts", ["campaign", "array"])
    op.create_index(
        "campaign_attempts_ran", "campaign_attempts", ["campaign", "array"], sqlite_where=RAN, postgresql_where=RAN
    )


def _campaign_marks() -> None:
    op.create_table("campaign_marks", *integer_key_columns(*PLACE), *text_columns("wiped_for"))
    op.create_table("campaign_missing", *integer_key_columns(*PLACE), *time_columns("since"))
    op.create_table(
        "campaign_ways",
        *integer_key_columns(*PLACE),
        *text_columns("cluster"),
        *integer_columns("job", "task"),
        *text_columns("lacked"),
        *time_columns("at"),
    )
    op.create_index("ix_campaign_ways_at", "campaign_ways", ["at"])
    op.create_table(
        "campaign_events",
        row_number_column("number"),
        *text_columns("kind", "code"),
        *integer_columns("campaign"),
        *text_columns("cluster"),
        *integer_columns("exit_status", nullable=True),
        *integer_columns("tasks"),
        *integer_columns("first_task", nullable=True),
        *time_columns("opened_at", "last_at"),
        *integer_columns("probes"),
        *time_columns("until", "closed_at", nullable=True),
        *text_columns("host", "closed_by", "why", default=""),
    )
    op.create_index("campaign_events_what", "campaign_events", ["campaign", "code", "cluster"])
    op.create_index("campaign_events_closed_at", "campaign_events", ["closed_at"])


def _campaign_speeds() -> None:
    op.create_table(
        "campaign_records",
        *integer_key_columns("campaign"),
        *text_key_columns("cluster"),
        *integer_columns("errors_in_row", "successes"),
        *text_columns("durations_s"),
        sa.Column("is_trusted", sa.Boolean, nullable=False),
        *text_columns("error_host", default=""),
        *integer_columns("wiped_in_row", default="0"),
    )
    op.create_table(
        "campaign_ratios",
        *integer_key_columns("campaign"),
        *text_key_columns("cluster"),
        *float_columns("ratio"),
        *integer_columns("free", "submitted"),
    )
    op.create_table(
        "campaign_ends",
        *integer_key_columns("campaign"),
        *text_key_columns("cluster"),
        sa.Column("minute", UtcTimeColumn, primary_key=True),
        *integer_columns("ended"),
    )
    op.create_table(
        "campaign_usage",
        *integer_key_columns("campaign"),
        *text_key_columns("cluster"),
        *time_columns("at"),
        *float_columns("used_s", "success_s", "successes"),
    )
    op.create_table(
        "campaign_forecasts",
        *integer_key_columns("campaign"),
        *time_columns("made_at", "p50_at", "p90_at"),
        *time_columns("ended_at", nullable=True),
    )


def _subscriptions() -> None:
    op.create_table(
        "campaign_subscriptions",
        row_number_column("number"),
        *integer_columns("uid"),
        *text_columns("owner", "way", "identity", "severity", "token"),
        *time_columns("told_until"),
        *integer_columns("tries"),
        *time_columns("next_at"),
        sa.UniqueConstraint("uid", "way", "identity", name="campaign_subscriptions_whose"),
    )


def _nodes() -> None:
    op.create_table(
        "balance_nodes",
        *text_key_columns("name", "machine"),
        *text_columns("pool", "state", "address", "host_key", "step", "cause"),
        *time_columns("since"),
        *time_columns("up_since", "idle_since", nullable=True),
        sa.Column("is_kept", sa.Boolean, nullable=False),
    )
    op.create_table("balance_facts", *text_key_columns("key"), *text_columns("value"))
    op.create_table("rebalance_notes", *text_key_columns("kind", "name"), *time_columns("at"))
    op.create_table(
        "carried_replicas",
        *text_key_columns("token"),
        *text_columns("dataset", "target", "source"),
        *integer_columns("size_bytes"),
        *time_columns("began_at"),
        *time_columns("ended_at", nullable=True),
        *text_columns("why"),
    )


def _statistics() -> None:
    """Write row statistics for SQLite's query planner, so that no cycle reads all tasks of a campaign.

    Without statistics SQLite reads a whole campaign to find the attempts of one array
    (sqlite.org/optoverview.html). ANALYZE of a small table creates the table of statistics.
    """
    op.execute("ANALYZE alembic_version")
    op.execute("DELETE FROM sqlite_stat1")
    statistic = sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:tbl, :idx, :stat)")
    for tbl, idx, stat in ALIKE:
        op.execute(statistic.bindparams(tbl=tbl, idx=idx, stat=stat))
    op.execute("ANALYZE sqlite_schema")  # makes this connection read the statistics again
