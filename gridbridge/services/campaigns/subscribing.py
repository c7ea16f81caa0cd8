"""What people ask about the messages that they get: each about their own alone."""

from collections.abc import Mapping

from gridbridge.decisions.campaigns.notices import may_be_told
from gridbridge.model.campaigns.notices import IDENTITIES, Severity, Subscription, Way
from gridbridge.model.campaigns.request import Answer, Asked, Verb
from gridbridge.model.campaigns.sections import Notifications
from gridbridge.shell import trust
from gridbridge.shell.clock import Clock
from gridbridge.state import campaign_files
from gridbridge.state.database import Database
from gridbridge.state.database.subscriptions import Subscriptions

MOST = 20  # of one person
ROOT = 0
ONE = 0  # the number under which a request about one subscription is answered


class Subscribing:
    """What does it."""

    VERBS = (Verb.SUBSCRIBE, Verb.UNSUBSCRIBE, Verb.SUBSCRIPTIONS)

    def __init__(
        self, database: Database, clock: Clock, policy: Notifications, folder: str
    ) -> None:
        self._subscriptions = Subscriptions(database)
        self._clock = clock
        self._policy = policy
        self._folder = folder

    def do(self, asked: Asked) -> Mapping[str, object]:
        """Do what is asked; return the answer. May be repeated."""
        if asked.verb is Verb.SUBSCRIPTIONS:
            known = self._subscriptions.of(asked.uid)
            return {"subscriptions": [_plain(one) for one in known]}
        wish = self._wish(asked)
        if isinstance(wish, Answer):
            return {str(ONE): wish}
        act = self._subscribe if asked.verb is Verb.SUBSCRIBE else self._unsubscribe
        return {str(ONE): act(wish)}

    def _subscribe(self, wish: Subscription) -> Answer:
        if not may_be_told(wish.way, self._policy):
            return Answer.NO_WAY
        known = self._subscriptions.of(wish.uid)
        is_new = all((one.way, one.identity) != (wish.way, wish.identity) for one in known)
        if is_new and len(known) >= MOST:
            return Answer.TOO_MANY
        before = self._subscriptions.put(wish)
        if wish.way is Way.PROGRAM:
            campaign_files.keep_wish(wish.token, self._folder)
        if before and before.token != wish.token:
            campaign_files.forget_wish(before.token, self._folder)
        return Answer.DONE

    def _unsubscribe(self, wish: Subscription) -> Answer:
        before = self._subscriptions.remove(wish)
        if before:
            campaign_files.forget_wish(before.token, self._folder)
        return Answer.DONE if before else Answer.UNKNOWN

    def _wish(self, asked: Asked) -> Subscription | Answer:
        """Return what is asked for, checked: any program may have written it."""
        try:
            way, severity = Way(asked.way), Severity(asked.severity)
        except ValueError:
            return Answer.WRONG
        is_roots = asked.uid == ROOT and way is Way.PROGRAM  # which nothing runs as
        if is_roots or not IDENTITIES[way].holds(asked.identity):
            return Answer.WRONG
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
