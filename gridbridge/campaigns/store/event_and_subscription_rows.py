"""Tables of campaign events, successes at clusters, and users' subscriptions to notifications."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime

import sqlalchemy as sa

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    CampaignSuccessAtCluster,
)
from gridbridge.model.campaigns.notification_subscriptions import (
    NotificationChannel,
    NotificationSeverity,
    NotificationSubscription,
)
from gridbridge.state import column_types
from gridbridge.state.campaign_tables import ARRAYS, CAMPAIGNS, IS_OPEN
from gridbridge.state.state_file import StateFile

EVENTS = sa.Table(
    "campaign_events",
    column_types.METADATA,
    column_types.row_number_column("number"),
    sa.Column("kind", column_types.EnumWordColumn(CampaignEventSubject), nullable=False),
    sa.Column("code", column_types.EnumWordColumn(CampaignEventCode), nullable=False),
    *column_types.integer_columns("campaign"),
    *column_types.text_columns("cluster"),
    *column_types.integer_columns("exit_status", nullable=True),
    *column_types.integer_columns("tasks"),
    *column_types.integer_columns("first_task", nullable=True),
    *column_types.time_columns("opened_at", "last_at"),
    *column_types.integer_columns("probes"),
    *column_types.time_columns("until", "closed_at", nullable=True),
    *column_types.text_columns("host"),
    # `closed_by`: token of the request that closed the event
    *column_types.text_columns("why", "closed_by", default=""),
    sa.Index("campaign_events_what", "campaign", "code", "cluster"),
    sa.Index("campaign_events_closed_at", "closed_at"),
)

RECORDS = sa.Table(
    "campaign_records",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign"),
    *column_types.text_key_columns("cluster"),
    *column_types.integer_columns("errors_in_row"),
    *column_types.text_columns("error_host"),
    *column_types.integer_columns("successes"),
    sa.Column("durations_s", column_types.JsonColumn, nullable=False),
    sa.Column("is_trusted", sa.Boolean, nullable=False),
    *column_types.integer_columns("wiped_in_row", default="0"),
)
_EVERY = sa.select(*(EVENTS.c[field.name] for field in fields(CampaignEvent))).order_by(EVENTS.c.number)
_OPEN = _EVERY.where(EVENTS.c.closed_at.is_(None))
_IS_SUSPECT = sa.and_(
    EVENTS.c.code == CampaignEventCode.SINK,
    ~sa.exists().where(
        RECORDS.c.campaign == EVENTS.c.campaign, RECORDS.c.cluster == EVENTS.c.cluster, RECORDS.c.is_trusted
    ),
)
_SINKS = sa.select(EVENTS.c.campaign, EVENTS.c.cluster).where(_IS_SUSPECT).order_by(EVENTS.c.cluster)
_SHOWN = _EVERY.where(sa.or_(EVENTS.c.closed_at.is_(None), EVENTS.c.closed_at >= sa.bindparam("since"), _IS_SUSPECT))
_BACK = sa.select(EVENTS.c.cluster, EVENTS.c.closed_at).where(
    EVENTS.c.code == CampaignEventCode.GET_JOBS, EVENTS.c.closed_at.is_not(None)
)
_WHAT = _EVERY.where(*(EVENTS.c[name] == sa.bindparam(name) for name in ("campaign", "code", "cluster")))
_WITH_ARRAYS = sa.select(ARRAYS.c.campaign).where(IS_OPEN)
_OF_CAMPAIGNS = sa.select(RECORDS).where(RECORDS.c.campaign.in_(sa.bindparam("campaigns", expanding=True)))


class EventAndSuccessRecordRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def query_open_events(self) -> tuple[CampaignEvent, ...]:
        """Return all open events, ordered by number."""
        return self._database.query_rows_as(CampaignEvent, _OPEN)

    def query_events_to_publish(self, since: datetime) -> tuple[CampaignEvent, ...]:
        """Return events that are open, closed since a time, or about a black hole that no owner has cleared."""
        return self._database.query_rows_as(CampaignEvent, _SHOWN, since=since)

    def events_opened_since(self, since: datetime) -> tuple[CampaignEvent, ...]:
        return self._database.query_rows_as(CampaignEvent, _EVERY.where(EVENTS.c.opened_at > since))

    def find_event(self, number: int) -> CampaignEvent | None:
        return next(iter(self._database.query_rows_as(CampaignEvent, _EVERY.where(EVENTS.c.number == number))), None)

    def find_open_event(self, code: CampaignEventCode, campaign: int, cluster: str) -> CampaignEvent | None:
        events = self._database.query_rows_as(CampaignEvent, _WHAT, code=code, campaign=campaign, cluster=cluster)
        return next((event for event in events if not event.closed_at), None)

    def list_black_holes(self) -> tuple[tuple[int, str], ...]:
        """Return campaign and cluster of each black hole that the campaign's owner has not cleared."""
        return tuple((row["campaign"], row["cluster"]) for row in self._database.rows(_SINKS))

    def recovery_times_of_clusters(self) -> dict[str, datetime]:
        return {row["cluster"]: row["closed_at"] for row in self._database.rows(_BACK)}

    def token_of_closing_request(self, number: int) -> str:
        query = sa.select(EVENTS.c.closed_by).where(EVENTS.c.number == number)
        return str(self._database.rows(query)[0]["closed_by"])

    def record_closing_request(self, number: int, token: str) -> None:
        self._database.execute(sa.update(EVENTS).where(EVENTS.c.number == number).values(closed_by=token))

    def store_events(self, events: Iterable[CampaignEvent]) -> None:
        """Store events; an event without a number replaces the row of the same event, or gets a new row."""
        with self._database.transaction():
            for event in events:
                values = asdict(event)
                if number := values.pop("number") or self._number_of_same_event(event):
                    self._database.execute(sa.update(EVENTS).where(EVENTS.c.number == number).values(**values))
                else:
                    self._database.execute(sa.insert(EVENTS), values)

    def open_event_once(self, event: CampaignEvent) -> None:
        """Store a new event if no event with the same code, campaign and cluster is open."""
        if not self.find_open_event(event.code, event.campaign, event.cluster):
            self.store_events([event])

    def _number_of_same_event(self, event: CampaignEvent) -> int:
        code, campaign, cluster, _ = event.identity
        stored_events = self._database.query_rows_as(
            CampaignEvent, _WHAT, code=code, campaign=campaign, cluster=cluster
        )
        return next((stored.number for stored in stored_events if stored.identity == event.identity), 0)

    def close_events_of_campaign(self, campaign: int, at: datetime) -> None:
        of = (EVENTS.c.campaign == campaign, EVENTS.c.closed_at.is_(None))
        self._database.execute(sa.update(EVENTS).where(*of).values(closed_at=at))

    def close_events_of_ended_campaigns(self, before: datetime, at: datetime, but: Iterable[CampaignEventCode]) -> None:
        """Close events of campaigns that ended before a time and have no open array, except codes in `but`."""
        ended = sa.select(CAMPAIGNS.c.number).where(CAMPAIGNS.c.ended_at < before)
        of = (
            EVENTS.c.campaign.in_(ended),
            EVENTS.c.campaign.not_in(_WITH_ARRAYS),
            EVENTS.c.code.not_in(but),
            EVENTS.c.closed_at.is_(None),
        )
        self._database.execute(sa.update(EVENTS).where(*of).values(closed_at=at))

    def delete_events_of_campaign(self, campaign: int) -> None:
        """Delete all events and success records of a campaign."""
        for table in (EVENTS, RECORDS):
            self._database.execute(sa.delete(table).where(table.c.campaign == campaign))

    def delete_old_events(self, before: datetime) -> None:
        """Delete events closed before a time, except events of black holes that no owner has cleared."""
        self._database.execute(sa.delete(EVENTS).where(EVENTS.c.closed_at < before, ~_IS_SUSPECT))

    def success_records(self, campaigns: Iterable[int]) -> tuple[CampaignSuccessAtCluster, ...]:
        rows = map(dict, self._database.rows(_OF_CAMPAIGNS, campaigns=tuple(campaigns)))
        return tuple(CampaignSuccessAtCluster(**row | {"durations_s": tuple(row["durations_s"])}) for row in rows)

    def store_success_records(self, records: Iterable[CampaignSuccessAtCluster]) -> None:
        self._database.execute_for_each_row(self._database.upsert(RECORDS), [*map(asdict, records)])


SUBSCRIPTIONS = sa.Table(
    "campaign_subscriptions",
    column_types.METADATA,
    column_types.row_number_column("number"),
    *column_types.integer_columns("uid"),
    *column_types.text_columns("owner"),
    sa.Column("way", column_types.EnumWordColumn(NotificationChannel), nullable=False),
    *column_types.text_columns("identity"),
    sa.Column("severity", column_types.EnumWordColumn(NotificationSeverity), nullable=False),
    *column_types.text_columns("token"),
    *column_types.time_columns("told_until"),
    *column_types.integer_columns("tries"),
    *column_types.time_columns("next_at"),
    sa.UniqueConstraint("uid", "way", "identity", name="campaign_subscriptions_whose"),
)


class NotificationSubscriptionRows:
    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all_subscriptions(self) -> tuple[NotificationSubscription, ...]:
        """Return every subscription, the oldest first."""
        return self._database.query_rows_as(
            NotificationSubscription, sa.select(SUBSCRIPTIONS).order_by(SUBSCRIPTIONS.c.number)
        )

    def subscriptions_of_user(self, uid: int) -> tuple[NotificationSubscription, ...]:
        return tuple(subscription for subscription in self.all_subscriptions() if subscription.uid == uid)

    def store_subscription(self, subscription: NotificationSubscription) -> NotificationSubscription | None:
        """Store a subscription; return the replaced subscription of the same user, channel and address."""
        values = asdict(subscription)
        values.pop("number")
        if before := self._find_same_subscription(subscription):
            values |= {"told_until": before.told_until}
            this = SUBSCRIPTIONS.c.number == before.number
            self._database.execute(sa.update(SUBSCRIPTIONS).where(this).values(**values))
        else:
            self._database.execute(sa.insert(SUBSCRIPTIONS), values)
        return before

    def delete_subscription(self, subscription: NotificationSubscription) -> NotificationSubscription | None:
        if before := self._find_same_subscription(subscription):
            self._database.execute(sa.delete(SUBSCRIPTIONS).where(SUBSCRIPTIONS.c.number == before.number))
        return before

    def record_delivery_times(self, subscription: NotificationSubscription) -> None:
        values = {"told_until": subscription.told_until, "tries": subscription.tries, "next_at": subscription.next_at}
        this = SUBSCRIPTIONS.c.number == subscription.number
        self._database.execute(sa.update(SUBSCRIPTIONS).where(this).values(**values))

    def campaign_starts_and_ends(self, since: datetime) -> tuple[tuple[Campaign, datetime, bool], ...]:
        """Return (campaign, time, whether it ended) for each submission and each end after a time."""
        columns = (CAMPAIGNS.c.number, CAMPAIGNS.c.submitted_at, CAMPAIGNS.c.ended_at)
        came = sa.select(*columns).where(CAMPAIGNS.c.submitted_at > since)
        ended = sa.select(*columns).where(CAMPAIGNS.c.ended_at > since, CAMPAIGNS.c.state == CampaignState.TERMINATED)
        changes = [(row["number"], row["submitted_at"], False) for row in self._database.rows(came)]
        changes += [(row["number"], row["ended_at"], True) for row in self._database.rows(ended)]
        find = CampaignRows(self._database).find_campaign
        return tuple((campaign, at, is_over) for number, at, is_over in changes if (campaign := find(number)))

    def _find_same_subscription(self, subscription: NotificationSubscription) -> NotificationSubscription | None:
        same = (subscription.way, subscription.identity)
        own = self.subscriptions_of_user(subscription.uid)
        return next((other for other in own if (other.way, other.identity) == same), None)
