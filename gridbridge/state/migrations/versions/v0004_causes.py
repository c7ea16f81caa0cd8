"""Why a transfer did not go on, and whether home's own list had its job."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Let transfers have both; nothing is known of those that are there."""
    for name in ("cause", "listed"):
        op.add_column("transfers", sa.Column(name, sa.Text, nullable=False, server_default=""))
