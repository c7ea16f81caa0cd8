"""What attempts say no more since their tasks were tried again, and copies that overran."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Add two columns to the attempts."""
    for name in ("is_past", "is_overrun"):
        column = sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column("campaign_attempts", column)
