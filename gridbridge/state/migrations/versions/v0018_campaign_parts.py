"""Which parameters were added to campaigns, and by which files."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0016"


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "campaign_parts",
        sa.Column("campaign", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("tasks", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False, unique=True),
    )
