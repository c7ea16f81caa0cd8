"""What jobs are, in facts: until then in the letters of sge_status(5) alone."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

SUSPENDED = "running", "suspended"
FACTS = {
    **dict.fromkeys("qw", ("waiting",)),
    "h": ("held",),
    "r": ("running",),
    "t": ("running", "starting"),
    "s": (*SUSPENDED, "by-hand"),
    "S": (*SUSPENDED, "by-queue"),
    "T": (*SUSPENDED, "by-threshold"),
    "d": ("deleting",),
    "E": ("error",),
    "R": ("restarted",),
    "z": ("finished",),
}


def upgrade() -> None:
    """Put the facts before the letters; a job that was not listed has neither."""
    for name in ("local_state", "remote_state"):
        column = sa.column(name, sa.Text)
        transfers = sa.table("transfers", column)
        known = op.get_bind().scalars(sa.select(column).where(column != "").distinct()).all()
        for letters in known:
            change = sa.update(transfers).where(column == letters)
            op.execute(change.values({name: f"{_facts(letters)} {letters}"}))


def _facts(letters: str) -> str:
    found = {fact for letter in letters for fact in FACTS.get(letter, ("unknown",))}
    return ",".join(sorted(found))
