"""What keeps a cycle from reading all tasks of a campaign: two indexes, and how SQLite chooses.

SQLite believes ten rows of an index to be alike unless it is told more, and so read a whole
campaign by its primary key to find an array's attempts (sqlite.org/optoverview.html). ANALYZE
would count the rows of the moment, which may be none; what is told here holds for any size.
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"

RAN = sa.text("wallclock_s IS NOT NULL")
TOLD = sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:tbl, :idx, :stat)")
ALIKE = (  # rows of an index, and of those that are alike in its first column, in its first two ...
    ("campaign_attempts", "campaign_attempts", "1000000 100000 1 1"),
    ("campaign_attempts", "campaign_attempts_array", "1000000 100000 1000 1 1"),
    ("campaign_attempts", "campaign_attempts_ran", "1000000 100000 1000 1 1"),
    ("campaign_arrays", "sqlite_autoindex_campaign_arrays_1", "100000 10000 1"),
    ("campaign_arrays", "campaign_arrays_state", "100000 10"),  # of those that are not over
    ("campaign_arrays", "campaign_arrays_copies", "100000 10000 100"),
    ("campaign_arrays", "campaign_arrays_cluster", "100000 10000 1000 1"),
)


def upgrade() -> None:
    """Make the indexes; SQLite's own statistics are of one small table at first."""
    op.create_index(
        "campaign_attempts_ran",
        "campaign_attempts",
        ["campaign", "array"],
        sqlite_where=RAN,
        postgresql_where=RAN,
        if_not_exists=True,  # somebody may have helped themselves
    )
    of_cluster = ["campaign", "cluster", "number"]
    op.create_index("campaign_arrays_cluster", "campaign_arrays", of_cluster, if_not_exists=True)
    if op.get_bind().dialect.name == "sqlite":
        op.execute("ANALYZE alembic_version")
        op.execute("DELETE FROM sqlite_stat1")
        for tbl, idx, stat in ALIKE:
            op.execute(TOLD.bindparams(tbl=tbl, idx=idx, stat=stat))
        op.execute("ANALYZE sqlite_schema")  # this connection reads them anew
