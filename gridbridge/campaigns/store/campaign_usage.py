"""The table of campaigns' slot usage at clusters, decayed to its last change."""

from collections.abc import Iterable
from dataclasses import asdict, fields

from sqlalchemy import BigInteger, Column, Float, Table, delete, select

from gridbridge.model.campaigns.cycle_plan import DecayedUsage
from gridbridge.state.database.columns import METADATA, MomentColumn, PrintableText
from gridbridge.state.database.transaction import StateFile

USAGE = Table(
    "campaign_usage",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", PrintableText, primary_key=True),
    Column("at", MomentColumn, nullable=False),
    Column("used_s", Float, nullable=False),
    Column("success_s", Float, nullable=False),
    Column("successes", Float, nullable=False),
)

_ALL = select(*(USAGE.c[field.name] for field in fields(DecayedUsage)))


class CampaignUsageRows:
    """Reads and writes the decayed slot usage of campaigns."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[DecayedUsage, ...]:
        """Return the stored usage of every campaign and cluster."""
        return tuple(DecayedUsage(**row) for row in map(dict, self._database.rows(_ALL)))

    def keep(self, usages: Iterable[DecayedUsage]) -> None:
        """Replace the stored usage of these campaigns at these clusters."""
        with self._database.transaction():
            for usage in usages:
                self._database.execute(self._database.upsert(USAGE), asdict(usage))

    def forget(self, usages: Iterable[DecayedUsage]) -> None:
        """Delete the stored usage of these campaigns at these clusters."""
        with self._database.transaction():
            for usage in usages:
                of = (USAGE.c.campaign == usage.campaign, USAGE.c.cluster == usage.cluster)
                self._database.execute(delete(USAGE).where(*of))
