"""Which part of a parallel job a record is of, where it is not the whole job's."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Let records say so; those that are there are taken for the whole job's."""
    column = sa.Column("pe_task", sa.Text, nullable=False, server_default="")
    op.add_column("remote_records", column)
