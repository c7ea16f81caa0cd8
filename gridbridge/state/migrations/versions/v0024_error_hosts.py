"""On which host tasks failed by themselves, where that was one alone."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add a column to events and one to how campaigns fare at clusters."""
    for table, column in (("campaign_events", "host"), ("campaign_records", "error_host")):
        op.add_column(table, sa.Column(column, sa.Text, nullable=False, server_default=""))
