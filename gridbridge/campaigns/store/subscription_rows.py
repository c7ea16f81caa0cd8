"""The table of notification subscriptions, each with the time notified until."""

from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Table, UniqueConstraint, delete, insert, select, update

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.subscriptions import NotificationChannel, NotificationSeverity, NotificationSubscription
from gridbridge.state.database.campaign_tables import CAMPAIGNS
from gridbridge.state.database.column_types import COUNTED, METADATA, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.database.transaction import StateFile

SUBSCRIPTIONS = Table(
    "campaign_subscriptions",
    METADATA,
    Column("number", COUNTED, primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("owner", PrintableTextColumn, nullable=False),
    Column("way", PrintableTextColumn, nullable=False),
    Column("identity", PrintableTextColumn, nullable=False),
    Column("severity", PrintableTextColumn, nullable=False),
    Column("token", PrintableTextColumn, nullable=False),
    Column("told_until", UtcTimeColumn, nullable=False),
    Column("tries", BigInteger, nullable=False),
    Column("next_at", UtcTimeColumn, nullable=False),
    UniqueConstraint("uid", "way", "identity", name="campaign_subscriptions_whose"),
)
_EVERY_SUBSCRIPTION = select(*(SUBSCRIPTIONS.c[field.name] for field in fields(NotificationSubscription))).order_by(
    SUBSCRIPTIONS.c.number
)


class NotificationSubscriptionRows:
    """Reads and writes the table of subscriptions."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[NotificationSubscription, ...]:
        """Return every subscription, the oldest first."""
        return tuple(_subscription(dict(row)) for row in self._database.rows(_EVERY_SUBSCRIPTION))

    def of(self, uid: int) -> tuple[NotificationSubscription, ...]:
        """Return the subscriptions of a uid."""
        return tuple(subscription for subscription in self.all() if subscription.uid == uid)

    def put(self, subscription: NotificationSubscription) -> NotificationSubscription | None:
        """Store a subscription; return a replaced one of the same person, channel and address."""
        values = asdict(subscription)
        values.pop("number")
        before = self._same(subscription)
        if before:
            values |= {"told_until": before.told_until}
            this = SUBSCRIPTIONS.c.number == before.number
            self._database.execute(update(SUBSCRIPTIONS).where(this).values(**values))
        else:
            self._database.execute(insert(SUBSCRIPTIONS), values)
        return before

    def remove(self, subscription: NotificationSubscription) -> NotificationSubscription | None:
        """Delete a subscription and return it; None if there was none."""
        if before := self._same(subscription):
            this = SUBSCRIPTIONS.c.number == before.number
            self._database.execute(delete(SUBSCRIPTIONS).where(this))
        return before

    def note(self, subscription: NotificationSubscription) -> None:
        """Record until when a subscriber was notified, and when the next attempt is due."""
        values = {"told_until": subscription.told_until, "tries": subscription.tries, "next_at": subscription.next_at}
        this = SUBSCRIPTIONS.c.number == subscription.number
        self._database.execute(update(SUBSCRIPTIONS).where(this).values(**values))

    def campaigns(self, since: datetime) -> tuple[tuple[Campaign, datetime, bool], ...]:
        """Return campaigns that were submitted or ended after a time.

        Each campaign is returned with the time of the change, and whether the change was its end.
        """
        columns = (CAMPAIGNS.c.number, CAMPAIGNS.c.submitted_at, CAMPAIGNS.c.ended_at)
        came = select(*columns).where(CAMPAIGNS.c.submitted_at > since)
        ended = select(*columns).where(CAMPAIGNS.c.ended_at > since, CAMPAIGNS.c.state == CampaignState.TERMINATED)
        changes = [(row["number"], row["submitted_at"], False) for row in self._database.rows(came)]
        changes += [(row["number"], row["ended_at"], True) for row in self._database.rows(ended)]
        campaigns = CampaignRows(self._database)
        looked_up = ((campaigns.find(number), at, is_over) for number, at, is_over in changes)
        return tuple((campaign, at, is_over) for campaign, at, is_over in looked_up if campaign)

    def _same(self, subscription: NotificationSubscription) -> NotificationSubscription | None:
        candidates = (candidate for candidate in self.of(subscription.uid) if candidate.way is subscription.way)
        return next((candidate for candidate in candidates if candidate.identity == subscription.identity), None)


def _subscription(row: dict[str, Any]) -> NotificationSubscription:
    words = {"way": NotificationChannel(row["way"]), "severity": NotificationSeverity(row["severity"])}
    return NotificationSubscription(**row | words)
