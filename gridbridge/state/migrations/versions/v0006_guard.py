"""What keeps a task that is put back from starting beside its remote copy."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Let transfers have a guard; those that are there have a hold."""
    op.add_column("transfers", sa.Column("guard", sa.Text, nullable=False, server_default="hold"))
