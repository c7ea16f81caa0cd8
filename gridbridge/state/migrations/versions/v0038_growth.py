"""Adds two indexes and statistics, so that no cycle reads all tasks of a campaign.

Without statistics SQLite assumes that ten rows of an index are alike, and so it read a whole
campaign by its primary key to find an array's attempts (sqlite.org/optoverview.html). ANALYZE
would count the present rows, which may be none; the numbers here hold for any size.
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"

RAN = sa.text("wallclock_s IS NOT NULL")
TOLD = sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:tbl, :idx, :stat)")
ALIKE = (  # rows of an index, then rows that are alike in its first column, in its first two ...
    ("campaign_attempts", "campaign_attempts", "1000000 100000 1 1"),
    ("campaign_attempts", "campaign_attempts_array", "1000000 100000 1000 1 1"),
    ("campaign_attempts", "campaign_attempts_ran", "1000000 100000 1000 1 1"),
    ("campaign_arrays", "sqlite_autoindex_campaign_arrays_1", "100000 10000 1"),
    ("campaign_arrays", "campaign_arrays_state", "100000 10"),  # arrays that are not over
    ("campaign_arrays", "campaign_arrays_copies", "100000 10000 100"),
    ("campaign_arrays", "campaign_arrays_cluster", "100000 10000 1000 1"),
)


def upgrade() -> None:
    """Make the indexes; SQLite makes its table of statistics from one small table."""
    op.create_index(
        "campaign_attempts_ran",
        "campaign_attempts",
        ["campaign", "array"],
        sqlite_where=RAN,
        postgresql_where=RAN,
        if_not_exists=True,  # an administrator may have made it
    )
    of_cluster = ["campaign", "cluster", "number"]
    op.create_index("campaign_arrays_cluster", "campaign_arrays", of_cluster, if_not_exists=True)
    if op.get_bind().dialect.name == "sqlite":
        op.execute("ANALYZE alembic_version")
        op.execute("DELETE FROM sqlite_stat1")
        for tbl, idx, stat in ALIKE:
            op.execute(TOLD.bindparams(tbl=tbl, idx=idx, stat=stat))
        op.execute("ANALYZE sqlite_schema")  # makes this connection read the statistics again
