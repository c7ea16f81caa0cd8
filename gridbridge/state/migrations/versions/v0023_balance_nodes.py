"""Nodes that the balancer owns, and what else it keeps."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

WORDS = ("name", "machine")
OTHERS = ("pool", "state", "address", "host_key", "step", "cause")


def upgrade() -> None:
    """Make tables of them."""
    op.create_table(
        "balance_nodes",
        *(sa.Column(name, sa.Text, primary_key=True) for name in WORDS),
        *(sa.Column(name, sa.Text, nullable=False) for name in OTHERS),
        sa.Column("since", sa.String(32), nullable=False),
        sa.Column("up_since", sa.String(32)),
        sa.Column("idle_since", sa.String(32)),
        sa.Column("is_kept", sa.Boolean, nullable=False),
    )
    op.create_table(
        "balance_facts",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
