"""Transfers, their events, and what was seen and decided."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

MOMENT = sa.String(32)
COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the first tables."""
    _transfers()
    _events()
    op.create_table(
        "snapshots",
        sa.Column("id", COUNTED, primary_key=True),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("taken_at", MOMENT, nullable=False),
        sa.Column("ok", sa.Boolean, nullable=False),
        sa.Column("took_s", sa.Float, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("id", COUNTED, primary_key=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("program", sa.Text, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("inputs", sa.Text, nullable=False),
    )


def _transfers() -> None:
    op.create_table(
        "transfers",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("uid", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("job", sa.BigInteger, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("owner", "remote", "queue")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("phase", "record", "wake")),
        sa.Column("rerun", sa.Text, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.Column("remote_id", sa.BigInteger, nullable=False),
        sa.Column("desired", sa.Text, nullable=False),
        sa.Column("local_state", sa.Text, nullable=False),
        sa.Column("remote_state", sa.Text, nullable=False),
        sa.Column("remote_host", sa.Text, nullable=False),
        sa.Column("since", MOMENT),
        sa.Column("missed_polls", sa.BigInteger, nullable=False),
        sa.Column("missing_since", MOMENT),
        sa.Column("seen_at", MOMENT),
        sa.Column("verdict", sa.Text),
        sa.Column("closed_at", MOMENT),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("transfers_closed_at", "transfers", ["closed_at"])
    op.create_index("transfers_task", "transfers", ["cluster", "job", "task"])


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", COUNTED, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("uid", sa.BigInteger, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_index("events_transfer", "events", ["name", "uid"])
