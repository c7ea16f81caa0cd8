"""Events of campaigns, how campaigns fare at clusters, and which clusters a task avoids."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make their tables, and add three columns."""
    op.create_table(
        "campaign_events",
        sa.Column("number", COUNTED, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "code")),
        sa.Column("campaign", sa.BigInteger, nullable=False),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("exit_status", sa.BigInteger),
        sa.Column("tasks", sa.BigInteger, nullable=False),
        sa.Column("first_task", sa.BigInteger),
        *(sa.Column(name, sa.String(32), nullable=False) for name in ("opened_at", "last_at")),
        sa.Column("probes", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.String(32)) for name in ("until", "closed_at")),
    )
    op.create_index("campaign_events_what", "campaign_events", ["campaign", "code", "cluster"])
    op.create_index("campaign_events_closed_at", "campaign_events", ["closed_at"])
    op.create_table(
        "campaign_records",
        sa.Column("campaign", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("cluster", sa.Text, primary_key=True),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("errors_in_row", "successes")
        ),
        sa.Column("durations_s", sa.Text, nullable=False),
        sa.Column("is_trusted", sa.Boolean, nullable=False),
    )
    op.add_column(
        "campaign_waiting", sa.Column("avoid", sa.Text, nullable=False, server_default="")
    )
    op.add_column(
        "campaign_arrays",
        sa.Column("is_repeated", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.add_column("campaigns", sa.Column("ended_at", sa.String(32)))
