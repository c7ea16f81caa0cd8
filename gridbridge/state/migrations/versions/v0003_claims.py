"""What decides whether a remote job may run, and who has it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Let transfers have a claim; those that are there have none."""
    for name in ("claim", "claimed"):
        op.add_column("transfers", sa.Column(name, sa.Text, nullable=False, server_default=""))
