"""How many tasks of a campaign waited in vain at a cluster, since one began there."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0032"


def upgrade() -> None:
    """Add the column: of what was before nobody knows."""
    op.add_column(
        "campaign_records",
        sa.Column("wiped_in_row", sa.BigInteger, nullable=False, server_default="0"),
    )
