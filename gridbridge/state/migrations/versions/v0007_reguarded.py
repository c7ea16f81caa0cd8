"""Whether the service has put a guard back, which may have come too late."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Let transfers say so; of those that are there nobody knows it."""
    column = sa.Column("reguarded", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("transfers", column)
