"""Moves of tasks that wait away."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "transfer_moves",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("uid", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("asked_at", sa.String(32), nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
