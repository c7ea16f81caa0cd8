"""What remote jobs used, and how far each cluster's accounting file was read."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

MOMENT = sa.String(32)


def upgrade() -> None:
    """Make the tables of remote accounting."""
    op.create_table(
        "cursors",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("inode", sa.Text, nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("tail", sa.Text, nullable=False),
        sa.Column("skipped", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "remote_records",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("mark", sa.Text, primary_key=True),
        sa.Column("transfer", sa.Text, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("home", "owner", "queue", "host")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("job", "task", "job_id")),
        sa.Column("kept_at", MOMENT, nullable=False),
        *(sa.Column(name, MOMENT) for name in ("submitted_at", "started_at", "ended_at")),
        *(sa.Column(name, sa.BigInteger) for name in ("failed", "exit_status")),
        *(sa.Column(name, sa.Float, nullable=False) for name in ("wallclock_s", "user_s")),
        sa.Column("system_s", sa.Float, nullable=False),
        sa.Column("max_rss_kb", sa.Float),
    )
    op.create_index("remote_records_task", "remote_records", ["home", "job", "task"])
    op.create_index("remote_records_kept_at", "remote_records", ["kept_at"])
