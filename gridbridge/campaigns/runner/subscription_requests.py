"""What people ask about the messages that they get: each about their own alone."""

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

MOST = 20  # of one person
ROOT = 0
ONE = 0  # the number under which a request about one subscription is answered


class SubscriptionRequests:
    """What does it."""

    VERBS = (OwnerVerb.SUBSCRIBE, OwnerVerb.UNSUBSCRIBE, OwnerVerb.SUBSCRIPTIONS)

    def __init__(
        self, database: StateFile, clock: Clock, policy: Notifications, folder: str
    ) -> None:
        self._subscriptions = SubscriptionRows(database)
        self._clock = clock
        self._policy = policy
        self._folder = folder

    def do(self, asked: OwnerRequest) -> Mapping[str, object]:
        """Do what is asked; return the answer. May be repeated."""
        if asked.verb is OwnerVerb.SUBSCRIPTIONS:
            known = self._subscriptions.of(asked.uid)
            return {"subscriptions": [_plain(one) for one in known]}
        wish = self._wish(asked)
        if isinstance(wish, OwnerReply):
            return {str(ONE): wish}
        act = self._subscribe if asked.verb is OwnerVerb.SUBSCRIBE else self._unsubscribe
        return {str(ONE): act(wish)}

    def _subscribe(self, wish: Subscription) -> OwnerReply:
        if not may_be_told(wish.way, self._policy):
            return OwnerReply.NO_WAY
        known = self._subscriptions.of(wish.uid)
        is_new = all((one.way, one.identity) != (wish.way, wish.identity) for one in known)
        if is_new and len(known) >= MOST:
            return OwnerReply.TOO_MANY
        before = self._subscriptions.put(wish)
        if wish.way is NotificationChannel.PROGRAM:
            campaign_files.keep_wish(wish.token, self._folder)
        if before and before.token != wish.token:
            campaign_files.forget_wish(before.token, self._folder)
        return OwnerReply.DONE

    def _unsubscribe(self, wish: Subscription) -> OwnerReply:
        before = self._subscriptions.remove(wish)
        if before:
            campaign_files.forget_wish(before.token, self._folder)
        return OwnerReply.DONE if before else OwnerReply.UNKNOWN

    def _wish(self, asked: OwnerRequest) -> Subscription | OwnerReply:
        """Return what is asked for, checked: any program may have written it."""
        try:
            way, severity = NotificationChannel(asked.way), Severity(asked.severity)
        except ValueError:
            return OwnerReply.WRONG
        is_roots = asked.uid == ROOT and way is NotificationChannel.PROGRAM  # which nothing runs as
        if is_roots or not IDENTITIES[way].holds(asked.identity):
            return OwnerReply.WRONG
        now = self._clock.now()
        return Subscription(
            uid=asked.uid,
            owner=trust.name_of(asked.uid),
            way=way,
            identity=asked.identity,
            severity=severity,
            token=asked.token,
            told_until=now,
            next_at=now,
        )


def _plain(one: Subscription) -> dict[str, str]:
    return {"way": one.way, "identity": one.identity, "severity": one.severity}
