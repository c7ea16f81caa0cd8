"""The first schema of the state file: tables, indexes, and statistics for SQLite's query planner."""

import sqlalchemy as sa
from alembic import op

from gridbridge.state import column_types as columns

revision = "0001"
down_revision = None

RAN = sa.text("wallclock_s IS NOT NULL")
ALIKE = (  # index: number of rows; then how many rows agree in the first column, in the first two, ...
    ("campaign_attempts", "campaign_attempts", "1000000 100000 1 1"),
    ("campaign_attempts", "campaign_attempts_array", "1000000 100000 1000 1 1"),
    ("campaign_attempts", "campaign_attempts_ran", "1000000 100000 1000 1 1"),
    ("campaign_arrays", "sqlite_autoindex_campaign_arrays_1", "100000 10000 1"),
    ("campaign_arrays", "campaign_arrays_state", "100000 10"),
    ("campaign_arrays", "campaign_arrays_copies", "100000 10000 100"),
    ("campaign_arrays", "campaign_arrays_cluster", "100000 10000 1000 1"),
)
PLACE = ("campaign", "array", "place")  # columns by which tables name an attempt that was sent


def upgrade() -> None:
    _transfers()
    _accounting()
    _decisions()
    _campaigns()
    _campaign_arrays()
    _campaign_marks()
    _campaign_speeds()
    _carries_and_file_servers()
    _checkpoints()
    _subscriptions()
    _masters()
    _nodes()
    if op.get_bind().dialect.name == "sqlite":
        _statistics()


def _transfers() -> None:
    op.create_table(
        "transfers",
        *columns.text_key_columns("name"),
        *columns.integer_key_columns("uid"),
        *columns.text_columns("cluster"),
        *columns.integer_columns("job", "task"),
        *columns.text_columns("owner", "remote", "queue", "phase", "record", "wake", "rerun"),
        *columns.time_columns("created_at", "updated_at"),
        *columns.integer_columns("remote_id"),
        *columns.text_columns("desired", "local_state", "remote_state", "remote_host"),
        *columns.time_columns("since", nullable=True),
        *columns.integer_columns("missed_polls"),
        *columns.time_columns("missing_since", "seen_at", nullable=True),
        sa.Column("verdict", sa.Text),
        *columns.time_columns("closed_at", nullable=True),
        sa.Column("pinned", sa.Boolean, nullable=False),
        *columns.text_columns("reason"),
        *columns.text_columns("claim", "claimed", "cause", "listed", default=""),
        *columns.text_columns("guard", default="hold"),
        *columns.flag_columns("reguarded"),
    )
    op.create_index("transfers_closed_at", "transfers", ["closed_at"])
    op.create_index("transfers_task", "transfers", ["cluster", "job", "task"])
    op.create_table(
        "events",
        columns.row_number_column("id"),
        *columns.text_columns("name"),
        *columns.integer_columns("uid"),
        *columns.time_columns("at"),
        *columns.text_columns("text"),
    )
    op.create_index("events_transfer", "events", ["name", "uid"])
    op.create_table(
        "transfer_moves",
        *columns.text_key_columns("name"),
        *columns.integer_key_columns("uid"),
        *columns.text_columns("source", "target"),
        *columns.time_columns("asked_at"),
        *columns.text_columns("stage", "reason"),
        *columns.integer_columns("slots", default="1"),
    )


def _accounting() -> None:
    op.create_table(
        "cursors",
        *columns.text_key_columns("cluster"),
        *columns.text_columns("path", "device", "inode"),
        *columns.integer_columns("offset"),
        *columns.text_columns("tail"),
        *columns.integer_columns("skipped"),
    )
    op.create_table(
        "remote_records",
        *columns.text_key_columns("cluster", "mark", "transfer"),
        *columns.text_columns("source", "home", "owner", "queue", "host"),
        *columns.integer_columns("job", "task", "job_id"),
        *columns.time_columns("kept_at"),
        *columns.time_columns("submitted_at", "started_at", "ended_at", nullable=True),
        *columns.integer_columns("failed", "exit_status", nullable=True),
        *columns.float_columns("wallclock_s", "user_s", "system_s", "max_rss_kb", nullable=True),
        *columns.text_columns("pe_task", default=""),
    )
    op.create_index("remote_records_task", "remote_records", ["home", "job", "task"])
    op.create_index("remote_records_kept_at", "remote_records", ["kept_at"])


def _decisions() -> None:
    op.create_table(
        "snapshots",
        columns.row_number_column("id"),
        *columns.text_columns("cluster"),
        *columns.time_columns("taken_at"),
        sa.Column("ok", sa.Boolean, nullable=False),
        *columns.float_columns("took_s"),
        *columns.text_columns("summary"),
    )
    op.create_table(
        "decisions",
        columns.row_number_column("id"),
        *columns.time_columns("at"),
        *columns.text_columns("program", "sentence", "inputs"),
    )
    op.create_table(
        "answers",
        *columns.text_key_columns("cluster"),
        *columns.text_columns("place"),
        *columns.time_columns("asked_at"),
        *columns.float_columns("every_s"),
        *columns.text_columns("covers", "trouble", "digest"),
    )
    content = sa.Column("content", sa.LargeBinary, nullable=False)
    op.create_table("answer_contents", *columns.text_key_columns("cluster"), *columns.text_columns("digest"), content)


def _campaigns() -> None:
    op.create_table(
        "campaigns",
        columns.row_number_column("number"),
        *columns.integer_columns("uid"),
        *columns.text_columns("owner", "state"),
        *columns.time_columns("submitted_at"),
        *columns.integer_columns("tasks", "ended", "failed", "cancelled"),
        *columns.text_columns("token", "digest", "jdl"),
        *columns.time_columns("ended_at", nullable=True),
        *columns.flag_columns("is_end_noted"),
        *columns.text_columns("name", default=""),
        sa.UniqueConstraint("token"),
    )
    op.create_index("campaigns_name", "campaigns", ["uid", "name"])
    op.create_table(
        "campaign_predecessors",
        *columns.integer_key_columns("campaign", "predecessor"),
        *columns.text_columns("condition"),
    )
    op.create_index("campaign_predecessors_predecessor", "campaign_predecessors", ["predecessor"])
    op.create_table(
        "campaign_parts",
        *columns.integer_key_columns("campaign", "number"),
        *columns.integer_columns("tasks"),
        *columns.text_columns("digest", "token"),
        sa.UniqueConstraint("token"),
    )
    op.create_table(
        "campaign_requests",
        *columns.text_key_columns("token"),
        *columns.integer_key_columns("campaign"),
        *columns.time_columns("done_at"),
    )
    op.create_table(
        "campaign_waiting",
        *columns.integer_key_columns("campaign", "first"),
        *columns.integer_columns("last", "attempt", "priority"),
        *columns.text_columns("avoid", "never", "awaits", default=""),
        *columns.time_columns("holds_until", nullable=True),
        *columns.text_columns("never_later", default=""),
    )
    op.create_index("campaign_waiting_holds_until", "campaign_waiting", ["holds_until"])


def _campaign_arrays() -> None:
    op.create_table(
        "campaign_arrays",
        *columns.integer_key_columns("campaign", "number"),
        *columns.text_columns("cluster", "state"),
        *columns.integer_columns("size", "job_id"),
        *columns.time_columns("intended_at"),
        *columns.flag_columns("is_repeated", "is_ordinary"),
        *columns.integer_columns("copies_beyond_s", nullable=True),
        *columns.integer_columns("checkpoint_s", "group_s", "group_wait_s", "added_tasks", default="0"),
        *columns.integer_columns("group_tasks", default="1"),
    )
    op.create_index("campaign_arrays_state", "campaign_arrays", ["state"])
    op.create_index("campaign_arrays_copies", "campaign_arrays", ["campaign", "copies_beyond_s"])
    op.create_index("campaign_arrays_cluster", "campaign_arrays", ["campaign", "cluster", "number"])
    op.create_table(
        "campaign_attempts",
        *columns.integer_key_columns("campaign", "task", "attempt"),
        *columns.integer_columns("array", "place"),
        *columns.text_columns("outcome"),
        *columns.integer_columns("exit_status", "wallclock_s", "max_rss_kb", "written_kb", nullable=True),
        *columns.integer_columns("checkpoint_bytes", nullable=True),
        *columns.flag_columns("is_past", "is_overrun", "has_progressed", "is_unwanted"),
        sqlite_with_rowid=False,
    )
    op.create_index("campaign_attempts_array", "campaign_attempts", ["campaign", "array"])
    op.create_index(
        "campaign_attempts_ran", "campaign_attempts", ["campaign", "array"], sqlite_where=RAN, postgresql_where=RAN
    )
    op.create_table(
        "campaign_outputs",
        *columns.integer_key_columns("campaign", "task", "attempt"),
        *columns.text_columns("cluster"),
        *columns.flag_columns("is_absent"),
    )
    op.create_index("campaign_outputs_cluster", "campaign_outputs", ["campaign", "cluster", "task"])
    op.create_index("campaign_outputs_absent", "campaign_outputs", ["is_absent", "campaign", "cluster"])


def _campaign_marks() -> None:
    op.create_table("campaign_marks", *columns.integer_key_columns(*PLACE), *columns.text_columns("wiped_for"))
    op.create_table("campaign_missing", *columns.integer_key_columns(*PLACE), *columns.time_columns("since"))
    op.create_table(
        "campaign_ways",
        *columns.integer_key_columns(*PLACE),
        *columns.text_columns("cluster"),
        *columns.integer_columns("job", "task"),
        *columns.text_columns("lacked"),
        *columns.time_columns("at"),
    )
    op.create_index("ix_campaign_ways_at", "campaign_ways", ["at"])
    op.create_table(
        "campaign_events",
        columns.row_number_column("number"),
        *columns.text_columns("kind", "code"),
        *columns.integer_columns("campaign"),
        *columns.text_columns("cluster"),
        *columns.integer_columns("exit_status", nullable=True),
        *columns.integer_columns("tasks"),
        *columns.integer_columns("first_task", nullable=True),
        *columns.time_columns("opened_at", "last_at"),
        *columns.integer_columns("probes"),
        *columns.time_columns("until", "closed_at", nullable=True),
        *columns.text_columns("host", "closed_by", "why", default=""),
    )
    op.create_index("campaign_events_what", "campaign_events", ["campaign", "code", "cluster"])
    op.create_index("campaign_events_closed_at", "campaign_events", ["closed_at"])


def _campaign_speeds() -> None:
    op.create_table(
        "campaign_records",
        *columns.integer_key_columns("campaign"),
        *columns.text_key_columns("cluster"),
        *columns.integer_columns("errors_in_row", "successes"),
        *columns.text_columns("durations_s"),
        sa.Column("is_trusted", sa.Boolean, nullable=False),
        *columns.text_columns("error_host", default=""),
        *columns.integer_columns("wiped_in_row", default="0"),
    )
    op.create_table(
        "campaign_ratios",
        *columns.integer_key_columns("campaign"),
        *columns.text_key_columns("cluster"),
        *columns.float_columns("ratio"),
        *columns.integer_columns("free", "submitted"),
    )
    op.create_table(
        "campaign_ends",
        *columns.integer_key_columns("campaign"),
        *columns.text_key_columns("cluster"),
        sa.Column("minute", columns.UtcTimeColumn, primary_key=True),
        *columns.integer_columns("ended"),
    )
    op.create_table(
        "campaign_usage",
        *columns.integer_key_columns("campaign"),
        *columns.text_key_columns("cluster"),
        *columns.time_columns("at"),
        *columns.float_columns("used_s", "success_s", "successes"),
    )
    op.create_table(
        "campaign_task_usage",
        *columns.integer_key_columns("campaign"),
        *columns.text_key_columns("cluster"),
        *columns.integer_columns("ended", "failed", "overruns", "beyond_memory", "longest_s"),
        *columns.integer_columns("measured", "max_rss_kb", "max_vmem_kb", "written_kb"),
    )
    op.create_table(
        "campaign_forecasts",
        *columns.integer_key_columns("campaign"),
        *columns.time_columns("made_at", "p50_at", "p90_at"),
        *columns.time_columns("ended_at", nullable=True),
    )


def _carries_and_file_servers() -> None:
    op.create_table(
        "campaign_carries",
        *columns.integer_key_columns("campaign"),
        *columns.text_key_columns("cluster"),
        *columns.float_columns("task_bytes", nullable=True),
    )
    op.create_table(
        "campaign_input_groups",
        *columns.integer_key_columns("campaign", "first"),
        *columns.integer_columns("last", "inputs"),
    )
    op.create_table(
        "campaign_inputs_sent",
        *columns.integer_key_columns("campaign"),
        *columns.text_key_columns("cluster"),
        *columns.integer_key_columns("inputs"),
    )
    op.create_table(
        "campaign_carry_rates",
        *columns.integer_key_columns("uid"),
        *columns.text_key_columns("cluster"),
        *columns.float_columns("bytes_per_s"),
    )
    op.create_table(
        "file_server_limits",
        *columns.text_key_columns("storage"),
        *columns.time_columns("at"),
        *columns.float_columns("limit", "base"),
        *columns.integer_columns("tasks"),
        sa.Column("load", sa.Float),
        *columns.time_columns("load_at", nullable=True),
    )


def _checkpoints() -> None:
    op.create_table(
        "campaign_checkpoint_times",
        *columns.integer_key_columns("campaign"),
        *columns.integer_columns("timed"),
        *columns.float_columns("total_s"),
    )
    op.create_table(
        "campaign_checkpoint_carries",
        *columns.integer_key_columns("campaign", "task", "attempt"),
        *columns.text_key_columns("cluster"),
        *columns.text_columns("source", "state"),
        *columns.float_columns("carry_s", "lost_s"),
    )
    op.create_index("campaign_checkpoint_carries_state", "campaign_checkpoint_carries", ["state"])
    op.create_table(
        "campaign_loss_rates",
        *columns.integer_key_columns("uid"),
        *columns.text_key_columns("cluster"),
        sa.Column("is_besteffort", sa.Boolean, primary_key=True),
        *columns.time_columns("at"),
        *columns.float_columns("run_s", "losses"),
    )


def _subscriptions() -> None:
    op.create_table(
        "campaign_subscriptions",
        columns.row_number_column("number"),
        *columns.integer_columns("uid"),
        *columns.text_columns("owner", "way", "identity", "severity", "token"),
        *columns.time_columns("told_until"),
        *columns.integer_columns("tries"),
        *columns.time_columns("next_at"),
        sa.UniqueConstraint("uid", "way", "identity", name="campaign_subscriptions_whose"),
    )


def _masters() -> None:
    op.create_table(
        "campaign_masters",
        *columns.text_key_columns("program"),
        *columns.integer_columns("term", "accepted_term"),
        *columns.text_columns("host"),
        *columns.float_columns("expires_s"),
        sa.Column("folders", sa.Text, nullable=False),
    )


def _nodes() -> None:
    op.create_table(
        "balance_nodes",
        *columns.text_key_columns("name", "machine"),
        *columns.text_columns("pool", "state", "address", "host_key", "step", "cause"),
        *columns.time_columns("since"),
        *columns.time_columns("up_since", "idle_since", nullable=True),
        sa.Column("is_kept", sa.Boolean, nullable=False),
    )
    op.create_table("balance_facts", *columns.text_key_columns("key"), *columns.text_columns("value"))
    op.create_table("rebalance_notes", *columns.text_key_columns("kind", "name"), *columns.time_columns("at"))
    op.create_table(
        "carried_replicas",
        *columns.text_key_columns("token"),
        *columns.text_columns("dataset", "target", "source"),
        *columns.integer_columns("size_bytes"),
        *columns.time_columns("began_at"),
        *columns.time_columns("ended_at", nullable=True),
        *columns.text_columns("why"),
    )


def _statistics() -> None:
    """Write statistics for SQLite.

    Without them SQLite reads a whole campaign to find an array's attempts.
    """
    op.execute("ANALYZE alembic_version")
    op.execute("DELETE FROM sqlite_stat1")
    statistic = sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:tbl, :idx, :stat)")
    for tbl, idx, stat in ALIKE:
        op.execute(statistic.bindparams(tbl=tbl, idx=idx, stat=stat))
    op.execute("ANALYZE sqlite_schema")  # so that this connection reads the new statistics
