"""What nobody told of a remote job's usage is not known, which is another thing than 0."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Let amounts be unknown; those that are there stay as they were told."""
    with op.batch_alter_table("remote_records") as table:
        for name in ("wallclock_s", "user_s", "system_s"):
            table.alter_column(name, existing_type=sa.Float(), nullable=True)
