"""Sends notifications about campaigns and events, and executes requests to subscribe."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from gridbridge.campaigns.runner import stress_and_mail_programs
from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.event_and_subscription_rows import (
    EventAndSuccessRecordRows,
    NotificationSubscriptionRows,
)
from gridbridge.decisions.campaigns import event_texts_and_notifications
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.campaigns.campaign_configuration_sections import NotificationsSection
from gridbridge.model.campaigns.campaign_owner_request import (
    CampaignOwnerRequest,
    CampaignOwnerRequestReply,
    CampaignOwnerRequestVerb,
)
from gridbridge.model.campaigns.notification_subscriptions import (
    IDENTITIES,
    CampaignNotification,
    NotifiableEvent,
    NotificationChannel,
    NotificationSeverity,
    NotificationSubscription,
)
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

MOST = 20  # at most this many subscriptions of one user
ROOT = 0


class SubscriptionRequestHandler:
    VERBS = (
        CampaignOwnerRequestVerb.SUBSCRIBE,
        CampaignOwnerRequestVerb.UNSUBSCRIBE,
        CampaignOwnerRequestVerb.SUBSCRIPTIONS,
    )

    def __init__(self, database: StateFile, clock: Clock, policy: NotificationsSection, folder: str) -> None:
        self._subscriptions = NotificationSubscriptionRows(database)
        self._clock = clock
        self._policy = policy
        self._folder = folder

    def execute_request(self, request: CampaignOwnerRequest) -> Mapping[str, object]:
        """Execute a request and return the answer; may be repeated."""
        if request.verb is CampaignOwnerRequestVerb.SUBSCRIPTIONS:
            names, own = ("way", "identity", "severity"), self._subscriptions.subscriptions_of_user(request.uid)
            return {"subscriptions": [{name: getattr(one, name) for name in names} for one in own]}
        reply = subscription = self._subscription_or_refusal(request)
        if not isinstance(subscription, CampaignOwnerRequestReply):
            is_new = request.verb is CampaignOwnerRequestVerb.SUBSCRIBE
            reply = self._add_subscription(subscription) if is_new else self._remove_subscription(subscription)
        return {"0": reply}

    def _remove_subscription(self, subscription: NotificationSubscription) -> CampaignOwnerRequestReply:
        before = self._subscriptions.delete_subscription(subscription)
        if before:
            campaign_files_of_owners.remove_root_subscription_file(before.token, self._folder)
        return CampaignOwnerRequestReply.DONE if before else CampaignOwnerRequestReply.UNKNOWN

    def _add_subscription(self, subscription: NotificationSubscription) -> CampaignOwnerRequestReply:
        if not event_texts_and_notifications.is_notify_channel_configured(subscription.way, self._policy):
            return CampaignOwnerRequestReply.NO_WAY
        subscriptions = self._subscriptions.subscriptions_of_user(subscription.uid)
        existing = {(earlier.way, earlier.identity) for earlier in subscriptions}
        if len(existing) >= MOST and (subscription.way, subscription.identity) not in existing:
            return CampaignOwnerRequestReply.TOO_MANY
        before = self._subscriptions.store_subscription(subscription)
        if subscription.way is NotificationChannel.PROGRAM:
            campaign_files_of_owners.keep_subscription_file_for_root(subscription.token, self._folder)
        if before and before.token != subscription.token:
            campaign_files_of_owners.remove_root_subscription_file(before.token, self._folder)
        return CampaignOwnerRequestReply.DONE

    def _subscription_or_refusal(
        self, request: CampaignOwnerRequest
    ) -> NotificationSubscription | CampaignOwnerRequestReply:
        try:
            way, severity = NotificationChannel(request.way), NotificationSeverity(request.severity)
        except ValueError:
            return CampaignOwnerRequestReply.WRONG
        # root can't subscribe a program, because gridbridge runs no program as root
        is_roots = request.uid == ROOT and way is NotificationChannel.PROGRAM
        if is_roots or not IDENTITIES[way].holds(request.identity):
            return CampaignOwnerRequestReply.WRONG
        now = self._clock.now()
        return NotificationSubscription(
            uid=request.uid,
            owner=safe_files.account_name_or_uid(request.uid),
            way=way,
            identity=request.identity,
            severity=severity,
            token=request.token,
            told_until=now,
            next_at=now,
        )


AT_ONCE = 16
PATIENCE_S = 2.0  # a cycle waits this long for deliveries; most mails take less
STALE = timedelta(hours=1)
Tell = Callable[[CampaignNotification, NotificationsSection], None]
_log = logging.getLogger(__name__)


class _NotificationDelivery:
    def __init__(self, message: CampaignNotification, policy: NotificationsSection, deliver: Tell) -> None:
        self.message = message
        self.error = ""
        self._work = partial(deliver, message, policy)
        self._thread = threading.Thread(target=self._deliver_notification)
        try:
            self._thread.start()
        except RuntimeError as error:  # no thread could be started, so a later cycle repeats the delivery
            self.error = str(error)

    def wait_for_delivery(self, limit_s: float) -> bool:
        if self._thread.ident:
            self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _deliver_notification(self) -> None:
        try:
            self._work()
        except (GridbridgeError, OSError) as error:
            self.error = describe_error(error)


@dataclass(eq=False)
class CampaignNotifier:
    _database: StateFile
    _policy: NotificationsSection
    _clock: Clock
    _deliver: Tell = stress_and_mail_programs.deliver_notification
    _sendings: dict[int, _NotificationDelivery] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._subscriptions = NotificationSubscriptionRows(self._database)
        self._events = EventAndSuccessRecordRows(self._database)
        self._campaigns = CampaignRows(self._database)

    def send_due_notifications(self) -> None:
        """Record finished deliveries, start due deliveries, and wait up to two seconds for them."""
        self._record_finished_deliveries(0.0)
        now = self._clock.now()
        subscriptions = [
            self._correct_future_subscription_times(subscription, now)
            for subscription in self._subscriptions.all_subscriptions()
        ]
        free = [subscription for subscription in subscriptions if subscription.number not in self._sendings]
        if not free:
            return
        messages = event_texts_and_notifications.compose_due_notifications(
            free, self._notifiable_events_since(min(subscription.told_until for subscription in free)), now
        )
        for message in messages[:AT_ONCE]:
            self._start_delivery(message, now)
        notified = {message.subscription.number for message in messages}
        for subscription in free:
            if subscription.number not in notified and now - subscription.told_until > STALE:
                self._subscriptions.record_delivery_times(replace(subscription, told_until=now))
        self._record_finished_deliveries(PATIENCE_S)

    def wait_for_deliveries(self) -> None:
        """Wait for all started deliveries; raise GridbridgeError if an outcome can't be recorded."""
        self._record_finished_deliveries(stress_and_mail_programs.LONGEST_S)

    def _correct_future_subscription_times(
        self, subscription: NotificationSubscription, now: datetime
    ) -> NotificationSubscription:
        """Correct a subscription's future times, which a fast clock has caused."""
        corrected = event_texts_and_notifications.drop_future_subscription_times(subscription, now, self._policy)
        if corrected != subscription:
            self._subscriptions.record_delivery_times(corrected)
        return corrected

    def _notifiable_events_since(self, since: datetime) -> list[NotifiableEvent]:
        texts = event_texts_and_notifications
        found = [
            texts.build_event_notification(event, self._campaigns.find_campaign(event.campaign))
            for event in self._events.events_opened_since(since)
        ]
        campaigns = self._subscriptions.campaign_starts_and_ends(since)
        found += [
            texts.build_start_or_end_notification(campaign, at, is_over=is_over) for campaign, at, is_over in campaigns
        ]
        return [event for event in found if event]

    def _start_delivery(self, message: CampaignNotification, now: datetime) -> None:
        subscription = message.subscription
        if subscription.tries >= self._policy.tries:
            _log.warning(
                "event=told_nobody to=%s way=%s subject=%r", subscription.owner, subscription.way, message.subject
            )
            self._subscriptions.record_delivery_times(_subscription_after_delivery(message, self._policy))
            return
        later = now + event_texts_and_notifications.pause_before_next_notification(subscription.tries + 1, self._policy)
        self._subscriptions.record_delivery_times(replace(subscription, tries=subscription.tries + 1, next_at=later))
        self._sendings[subscription.number] = _NotificationDelivery(message, self._policy, self._deliver)

    def _record_finished_deliveries(self, limit_s: float) -> None:
        deadline_s = self._clock.steady_s() + limit_s
        for number, sending in [*self._sendings.items()]:
            if not sending.wait_for_delivery(max(0.0, deadline_s - self._clock.steady_s())):
                continue
            del self._sendings[number]
            subscription = sending.message.subscription
            if sending.error:
                _log.warning("event=not_told to=%s way=%s why=%r", subscription.owner, subscription.way, sending.error)
            else:
                self._subscriptions.record_delivery_times(_subscription_after_delivery(sending.message, self._policy))


def _subscription_after_delivery(
    message: CampaignNotification, policy: NotificationsSection
) -> NotificationSubscription:
    later = message.until + event_texts_and_notifications.pause_before_next_notification(0, policy)
    return replace(message.subscription, told_until=message.until, tries=0, next_at=later)
