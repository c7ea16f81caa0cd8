"""What clusters answered last, for the other programs of the service."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Make a table of the answers, and one of what they list, which is large and changes less."""
    op.create_table(
        "answers",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("asked_at", sa.String(32), nullable=False),
        sa.Column("every_s", sa.Float, nullable=False),
        sa.Column("covers", sa.Text, nullable=False),
        sa.Column("trouble", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_table(
        "answer_contents",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
