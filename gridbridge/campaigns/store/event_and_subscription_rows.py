"""Tables of campaign events, of campaigns' successes at clusters, and of users' subscriptions to notifications.

A recurring event reuses its row, so the number of rows has a limit.
"""

from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Executable,
    Index,
    Table,
    UniqueConstraint,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignState
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    CampaignSuccessAtCluster,
)
from gridbridge.model.campaigns.subscriptions import NotificationChannel, NotificationSeverity, NotificationSubscription
from gridbridge.state.campaign_tables import ARRAYS, CAMPAIGNS
from gridbridge.state.column_types import (
    COUNTED,
    METADATA,
    JsonColumn,
    PrintableTextColumn,
    UtcTimeColumn,
)
from gridbridge.state.state_file import StateFile

EVENTS = Table(
    "campaign_events",
    METADATA,
    Column("number", COUNTED, primary_key=True),
    Column("kind", PrintableTextColumn, nullable=False),
    Column("code", PrintableTextColumn, nullable=False),
    Column("campaign", BigInteger, nullable=False),
    Column("cluster", PrintableTextColumn, nullable=False),
    Column("exit_status", BigInteger),
    Column("tasks", BigInteger, nullable=False),
    Column("first_task", BigInteger),
    Column("opened_at", UtcTimeColumn, nullable=False),
    Column("last_at", UtcTimeColumn, nullable=False),
    Column("probes", BigInteger, nullable=False),
    Column("until", UtcTimeColumn),
    Column("closed_at", UtcTimeColumn),
    Column("host", PrintableTextColumn, nullable=False),
    Column("why", PrintableTextColumn, nullable=False, server_default=""),
    Column(
        "closed_by", PrintableTextColumn, nullable=False, server_default=""
    ),  # token of the request that closed the event
    Index("campaign_events_what", "campaign", "code", "cluster"),
    Index("campaign_events_closed_at", "closed_at"),
)

RECORDS = Table(
    "campaign_records",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", PrintableTextColumn, primary_key=True),
    Column("errors_in_row", BigInteger, nullable=False),
    Column("error_host", PrintableTextColumn, nullable=False),
    Column("successes", BigInteger, nullable=False),
    Column("durations_s", JsonColumn, nullable=False),
    Column("is_trusted", Boolean, nullable=False),
    Column("wiped_in_row", BigInteger, nullable=False, server_default="0"),
)

_EVENT = tuple(EVENTS.c[field.name] for field in fields(CampaignEvent))
_RECORD = tuple(RECORDS.c[field.name] for field in fields(CampaignSuccessAtCluster))
_EVERY = select(*_EVENT).order_by(EVENTS.c.number)
_OPEN = _EVERY.where(EVENTS.c.closed_at.is_(None))
_IS_SUSPECT = and_(
    EVENTS.c.code == CampaignEventCode.SINK,
    ~exists().where(
        RECORDS.c.campaign == EVENTS.c.campaign, RECORDS.c.cluster == EVENTS.c.cluster, RECORDS.c.is_trusted
    ),
)
_SINKS = select(EVENTS.c.campaign, EVENTS.c.cluster).where(_IS_SUSPECT).order_by(EVENTS.c.cluster)
_SHOWN = _EVERY.where(or_(EVENTS.c.closed_at.is_(None), EVENTS.c.closed_at >= bindparam("since"), _IS_SUSPECT))
_BACK = select(EVENTS.c.cluster, EVENTS.c.closed_at).where(
    EVENTS.c.code == CampaignEventCode.GET_JOBS, EVENTS.c.closed_at.is_not(None)
)
_SINCE = _EVERY.where(EVENTS.c.opened_at > bindparam("since"))
_ONE = _EVERY.where(EVENTS.c.number == bindparam("number"))
_CLOSED_BY = select(EVENTS.c.closed_by).where(EVENTS.c.number == bindparam("number"))
_WHAT = _EVERY.where(
    EVENTS.c.campaign == bindparam("campaign"),
    EVENTS.c.code == bindparam("code"),
    EVENTS.c.cluster == bindparam("cluster"),
)
_WITH_ARRAYS = select(ARRAYS.c.campaign).where(
    ARRAYS.c.state.in_([state for state in ArraySubmissionState if state is not ArraySubmissionState.OVER])
)
_OF_CAMPAIGNS = select(*_RECORD).where(RECORDS.c.campaign.in_(bindparam("campaigns", expanding=True)))


class EventAndSuccessRecordRows:
    """Reads and writes campaign events, and records of campaigns' successes and errors at clusters."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def open(self) -> tuple[CampaignEvent, ...]:
        """Return all open events, ordered by number."""
        return self._select(_OPEN)

    def shown(self, since: datetime) -> tuple[CampaignEvent, ...]:
        """Return open events, events closed since a time, and events of black holes that no owner has cleared."""
        return self._select(_SHOWN, since=since)

    def opened_since(self, since: datetime) -> tuple[CampaignEvent, ...]:
        """Return all events, open or closed, that were opened after a time."""
        return self._select(_SINCE, since=since)

    def find(self, number: int) -> CampaignEvent | None:
        """Return the event with this number; None if the event does not exist."""
        return next(iter(self._select(_ONE, number=number)), None)

    def find_open(self, code: CampaignEventCode, campaign: int, cluster: str) -> CampaignEvent | None:
        """Return the open event with this code, campaign and cluster; None if no such event is open."""
        events = self._select(_WHAT, code=code, campaign=campaign, cluster=cluster)
        return next((event for event in events if not event.closed_at), None)

    def sinks(self) -> tuple[tuple[int, str], ...]:
        """Return campaign and cluster of each black hole that the campaign's owner has not cleared."""
        return tuple((row["campaign"], row["cluster"]) for row in self._database.rows(_SINKS))

    def back_at(self) -> dict[str, datetime]:
        """Return the time at which each cluster last answered again after a failure."""
        return {row["cluster"]: row["closed_at"] for row in self._database.rows(_BACK)}

    def closed_by(self, number: int) -> str:
        """Return the token of the request that last closed an event; empty if no request closed the event."""
        return str(self._database.rows(_CLOSED_BY, number=number)[0]["closed_by"])

    def is_closed_by(self, number: int, token: str) -> None:
        """Record the token of the request that closed an event."""
        of = EVENTS.c.number == number
        self._database.execute(update(EVENTS).where(of).values(closed_by=token))

    def put(self, events: Iterable[CampaignEvent]) -> None:
        """Store events; an event without a number reopens its closed row, or gets a new row."""
        with self._database.transaction():
            for event in events:
                self._put(event if event.number else replace(event, number=self._number_of(event)))

    def open_once(self, event: CampaignEvent) -> None:
        """Store a new event if no event with the same code, campaign and cluster is open."""
        if not self.find_open(event.code, event.campaign, event.cluster):
            self.put([event])

    def _number_of(self, event: CampaignEvent) -> int:
        code, campaign, cluster, _ = event.what
        stored_events = self._select(_WHAT, code=code, campaign=campaign, cluster=cluster)
        return next((stored.number for stored in stored_events if stored.what == event.what), 0)

    def _put(self, event: CampaignEvent) -> None:
        values = asdict(event)
        number = values.pop("number")
        if number:
            self._database.execute(update(EVENTS).where(EVENTS.c.number == number).values(**values))
        else:
            self._database.execute(insert(EVENTS), values)

    def close(self, campaign: int, at: datetime) -> None:
        """Close all events of a campaign."""
        of = (EVENTS.c.campaign == campaign, EVENTS.c.closed_at.is_(None))
        self._database.execute(update(EVENTS).where(*of).values(closed_at=at))

    def close_of_ended(self, before: datetime, at: datetime, but: Iterable[CampaignEventCode]) -> None:
        """Close the events of campaigns that ended before a time and have no open array.

        Events with a code in `but` stay open.
        """
        ended = select(CAMPAIGNS.c.number).where(CAMPAIGNS.c.ended_at < before)
        of = (
            EVENTS.c.campaign.in_(ended),
            EVENTS.c.campaign.not_in(_WITH_ARRAYS),
            EVENTS.c.code.not_in(but),
            EVENTS.c.closed_at.is_(None),
        )
        self._database.execute(update(EVENTS).where(*of).values(closed_at=at))

    def drop(self, campaign: int) -> None:
        """Delete all events and records of a campaign."""
        for table in (EVENTS, RECORDS):
            self._database.execute(delete(table).where(table.c.campaign == campaign))

    def forget(self, before: datetime) -> None:
        """Delete events closed before a time, except events of black holes that no owner has cleared."""
        self._database.execute(delete(EVENTS).where(EVENTS.c.closed_at < before, ~_IS_SUSPECT))

    def records(self, campaigns: Iterable[int]) -> tuple[CampaignSuccessAtCluster, ...]:
        """Return the records of campaigns' successes and errors at each cluster."""
        rows = map(dict, self._database.rows(_OF_CAMPAIGNS, campaigns=tuple(campaigns)))
        return tuple(CampaignSuccessAtCluster(**row | {"durations_s": tuple(row["durations_s"])}) for row in rows)

    def put_records(self, records: Iterable[CampaignSuccessAtCluster]) -> None:
        """Store records of campaigns' successes and errors at clusters."""
        rows = [asdict(record) for record in records]
        if rows:
            self._database.execute(self._database.upsert(RECORDS), rows)

    def _select(self, query: Executable, **values: object) -> tuple[CampaignEvent, ...]:
        return tuple(_event(dict(row)) for row in self._database.rows(query, **values))


def _event(row: dict[str, Any]) -> CampaignEvent:
    return CampaignEvent(**row | {"kind": CampaignEventSubject(row["kind"]), "code": CampaignEventCode(row["code"])})


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
    """Reads and writes users' subscriptions to notifications about campaigns."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all(self) -> tuple[NotificationSubscription, ...]:
        """Return every subscription, the oldest first."""
        return tuple(_subscription(dict(row)) for row in self._database.rows(_EVERY_SUBSCRIPTION))

    def of(self, uid: int) -> tuple[NotificationSubscription, ...]:
        """Return the subscriptions of the user with this uid."""
        return tuple(subscription for subscription in self.all() if subscription.uid == uid)

    def put(self, subscription: NotificationSubscription) -> NotificationSubscription | None:
        """Store a subscription; return the replaced subscription of the same user, channel and address."""
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
        """Delete a subscription; return the deleted subscription, or None if the user did not have it."""
        if before := self._same(subscription):
            this = SUBSCRIPTIONS.c.number == before.number
            self._database.execute(delete(SUBSCRIPTIONS).where(this))
        return before

    def note(self, subscription: NotificationSubscription) -> None:
        """Record up to which time a subscriber was notified, and when the next attempt is due."""
        values = {"told_until": subscription.told_until, "tries": subscription.tries, "next_at": subscription.next_at}
        this = SUBSCRIPTIONS.c.number == subscription.number
        self._database.execute(update(SUBSCRIPTIONS).where(this).values(**values))

    def campaigns(self, since: datetime) -> tuple[tuple[Campaign, datetime, bool], ...]:
        """Return campaigns that were submitted or ended after a time.

        Each campaign has the time of its submission or end, and True for an end.
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
