"""Execute people's requests to add, remove and list their notification subscriptions."""

from collections.abc import Mapping

from gridbridge.campaigns.store import campaign_files
from gridbridge.campaigns.store.subscription_rows import SubscriptionRows
from gridbridge.decisions.campaigns.notification_rules import may_be_told
from gridbridge.model.campaigns.campaign_sections import Notifications
from gridbridge.model.campaigns.owner_request import OwnerReply, OwnerRequest, OwnerVerb
from gridbridge.model.campaigns.subscriptions import (
    IDENTITIES,
    NotificationChannel,
    Severity,
    Subscription,
)
from gridbridge.shell import trust
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile

MOST = 20  # subscriptions of one person
ROOT = 0
ONE = 0  # the number of the subscription in an answer


class SubscriptionRequests:
    """Executes requests about a person's own notification subscriptions."""

    VERBS = (OwnerVerb.SUBSCRIBE, OwnerVerb.UNSUBSCRIBE, OwnerVerb.SUBSCRIPTIONS)

    def __init__(
        self, database: StateFile, clock: Clock, policy: Notifications, folder: str
    ) -> None:
        self._subscriptions = SubscriptionRows(database)
        self._clock = clock
        self._policy = policy
        self._folder = folder

    def do(self, request: OwnerRequest) -> Mapping[str, object]:
        """Execute a request and return its answer; repeating a request is safe."""
        if request.verb is OwnerVerb.SUBSCRIPTIONS:
            subscriptions = self._subscriptions.of(request.uid)
            return {"subscriptions": [_plain(subscription) for subscription in subscriptions]}
        subscription = self._checked(request)
        if isinstance(subscription, OwnerReply):
            return {str(ONE): subscription}
        act = self._subscribe if request.verb is OwnerVerb.SUBSCRIBE else self._unsubscribe
        return {str(ONE): act(subscription)}

    def _subscribe(self, subscription: Subscription) -> OwnerReply:
        if not may_be_told(subscription.way, self._policy):
            return OwnerReply.NO_WAY
        existing = self._subscriptions.of(subscription.uid)
        is_new = all(
            (earlier.way, earlier.identity) != (subscription.way, subscription.identity)
            for earlier in existing
        )
        if is_new and len(existing) >= MOST:
            return OwnerReply.TOO_MANY
        before = self._subscriptions.put(subscription)
        if subscription.way is NotificationChannel.PROGRAM:
            campaign_files.keep_wish(subscription.token, self._folder)
        if before and before.token != subscription.token:
            campaign_files.forget_wish(before.token, self._folder)
        return OwnerReply.DONE

    def _unsubscribe(self, subscription: Subscription) -> OwnerReply:
        before = self._subscriptions.remove(subscription)
        if before:
            campaign_files.forget_wish(before.token, self._folder)
        return OwnerReply.DONE if before else OwnerReply.UNKNOWN

    def _checked(self, request: OwnerRequest) -> Subscription | OwnerReply:
        """Return the requested subscription, or the refusal of an invalid request.

        The request is untrusted: any program may have written it.
        """
        try:
            way, severity = NotificationChannel(request.way), Severity(request.severity)
        except ValueError:
            return OwnerReply.WRONG
        is_roots = (
            request.uid == ROOT and way is NotificationChannel.PROGRAM
        )  # which nothing runs as
        if is_roots or not IDENTITIES[way].holds(request.identity):
            return OwnerReply.WRONG
        now = self._clock.now()
        return Subscription(
            uid=request.uid,
            owner=trust.name_of(request.uid),
            way=way,
            identity=request.identity,
            severity=severity,
            token=request.token,
            told_until=now,
            next_at=now,
        )


def _plain(subscription: Subscription) -> dict[str, str]:
    return {
        "way": subscription.way,
        "identity": subscription.identity,
        "severity": subscription.severity,
    }
