"""Since when campaigns' tasks are not listed, those that are to be wiped and all others."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

KEY = ("campaign", "array", "place")


def upgrade() -> None:
    """Make a table of it, and take over what was noted beside the marks."""
    key = [sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False) for name in KEY]
    missing = op.create_table(
        "campaign_missing", *key, sa.Column("since", sa.String(32), nullable=False)
    )
    marks = sa.table("campaign_marks", *map(sa.column, (*KEY, "missing_since")))
    noted = sa.select(marks).where(marks.c.missing_since.is_not(None))
    op.execute(sa.insert(missing).from_select([*KEY, "since"], noted))
    with op.batch_alter_table("campaign_marks") as table:
        table.drop_column("missing_since")
