"""Which campaigns' ends root's ledger knows; of those before, none."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add that column."""
    op.add_column(
        "campaigns",
        sa.Column("is_end_noted", sa.Boolean, nullable=False, server_default=sa.false()),
    )
