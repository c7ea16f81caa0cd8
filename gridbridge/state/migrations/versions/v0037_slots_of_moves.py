"""How many slots a task takes that is moved from one cluster to another."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    """Add the column: of what moves already nobody knows more than that it takes one."""
    op.add_column(
        "transfer_moves",
        sa.Column("slots", sa.BigInteger, nullable=False, server_default="1"),
    )
