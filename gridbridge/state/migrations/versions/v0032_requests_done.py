"""Which requests were done about campaigns; before, only which one cancelled a campaign."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Make a table of them, and drop the column."""
    op.create_table(
        "campaign_requests",
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("campaign", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("done_at", sa.String(32), nullable=False),
    )
    op.drop_column("campaigns", "cancelled_by")
