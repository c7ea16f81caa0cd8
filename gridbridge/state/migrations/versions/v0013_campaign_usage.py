"""What the tasks of campaigns used, by which free slots are shared."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "campaign_usage",
        sa.Column("campaign", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        *(sa.Column(name, sa.Float, nullable=False) for name in NUMBERS),
    )


NUMBERS = ("used_s", "success_s", "successes")
