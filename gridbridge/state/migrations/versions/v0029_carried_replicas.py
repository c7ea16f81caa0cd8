"""Which replicas the service had made and removed."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "carried_replicas",
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("began_at", sa.String(32), nullable=False),
        sa.Column("ended_at", sa.String(32)),
        sa.Column("why", sa.Text, nullable=False),
    )
