"""Who wants to be told of campaigns."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make its table."""
    op.create_table(
        "campaign_subscriptions",
        sa.Column("number", COUNTED, primary_key=True),
        sa.Column("uid", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in WORDS),
        sa.Column("told_until", sa.String(32), nullable=False),
        sa.Column("tries", sa.BigInteger, nullable=False),
        sa.Column("next_at", sa.String(32), nullable=False),
        sa.UniqueConstraint("uid", "way", "identity", name="campaign_subscriptions_whose"),
    )


COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")
WORDS = ("owner", "way", "identity", "severity", "token")
