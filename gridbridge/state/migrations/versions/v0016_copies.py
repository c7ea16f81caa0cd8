"""Which arrays are of copies, and beyond which time of a task they were made."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column; no array before was of copies."""
    op.add_column("campaign_arrays", sa.Column("copies_beyond_s", sa.BigInteger))
    op.create_index("campaign_arrays_copies", "campaign_arrays", ["campaign", "copies_beyond_s"])
