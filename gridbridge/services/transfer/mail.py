"""Take the spool's messages into the ledger: each is judged by its content and its file's uid."""

import logging
import pwd
from collections.abc import Iterable, Mapping

from gridbridge.apply.transfer.acts import Acts
from gridbridge.decisions.transfer.plan import ANOTHERS
from gridbridge.decisions.transfer.receive import (
    Received,
    Way,
    answer,
    fault,
    is_of_another_job,
    is_succeeded,
    judge,
)
from gridbridge.decisions.transfer.unheard import of_asker
from gridbridge.model.message import Desired, Kind, Message, short
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.plan import Rejected
from gridbridge.model.transfer.transfer import Key, Transfer
from gridbridge.services.journal import Journal
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.transfer.refused import Refusals
from gridbridge.services.transfer.unheard import UnheardEnds
from gridbridge.services.transfer.unproved import Unproved
from gridbridge.shell.clock import Clock
from gridbridge.shell.quota import Quota
from gridbridge.state.inbox import Inbox
from gridbridge.state.letters import Letter

PREMATURE_S = 60.0  # a message may come before the record that it belongs to
PREMATURE_OF_UID = 100  # the remote hosts may see the spool before our starters' words
LINGER_S = 1.5  # for ends that are home: the rest of a round costs more than reading them
LINGERING = 20  # more are worth a round of their own
KIND_ORDER = (Kind.RECORD, Kind.INTENT, Kind.SPARED, Kind.ENDED, Kind.CLOSED, Kind.ASK)

_log = logging.getLogger(__name__)


class Mail:
    """The messages of one round; keeps those that came before their record."""

    def __init__(
        self,
        policy: Policy,
        inbox: Inbox,
        ledger: Ledger,
        acts: Acts,
        unheard_ends: UnheardEnds,
        clock: Clock,
        journal: Journal,
    ) -> None:
        self.premature: dict[str, tuple[float, Letter]] = {}
        self.unproved = Unproved(ledger, inbox, clock)
        self.asked: set[Key] = set()  # deleted transfers of whose tasks another starter asks
        self._done: list[str] = []
        self._lingering: tuple[Letter, ...] = ()
        self._lingering_since = 0.0
        self._inbox = inbox
        self._clock = clock
        self._refusals = Refusals(journal)
        self._ledger = ledger
        self._acts = acts
        self._unheard_ends = unheard_ends
        self._routes: set[Way] = set()
        self._quota = Quota(clock=clock.steady_s)  # of lines about each uid
        self.follow(policy)

    def follow(self, policy: Policy) -> None:
        """Judge messages by another configuration from now on.

        A starter uses the route that it has read, so routes of older ones stay valid.
        """
        self.linger_s = LINGER_S - policy.poller.spool_interval_s  # until the look before that
        self._home = policy.site.cluster
        self.allow((name, queue.cluster) for name, queue in policy.queues.items())
        self._limit = policy.poller.spool_files_per_uid

    def allow(self, routes: Iterable[Way]) -> None:
        """Take records that name one of these, too: starters are shown it."""
        self._routes.update(routes)

    def take(self, at_once: bool) -> tuple[Transfer, ...]:
        """Bring the spool's news into the ledger; return the transfers that changed.

        Without `at_once`, ends that are home already wait a while for other news.
        The messages stay in the spool until `put_away`: a process that is killed in between
        leaves them to the next one, which does the same again.
        """
        new = (*self._lingering, *self._inbox.read())
        if not at_once and self._may_linger(new):
            return ()
        self._lingering = ()
        self.unproved.begin()
        letters = [*(letter for _, letter in self.premature.values()), *new]
        letters.sort(key=lambda letter: _rank(letter.message.kind))
        changed: set[Key] = set()
        newest = {_series(letter): letter.path for letter in letters}
        for letter in letters:
            if newest[_series(letter)] == letter.path:
                self._done += self._take(letter, changed)
            else:
                self.premature.pop(letter.path, None)
                self._done.append(letter.path)
        return tuple(self._ledger.open[each] for each in changed)

    def hear(self, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]) -> None:
        """Take home's answer about the transfers whose records wait for it."""
        self._done += self.unproved.hear(home, snapshots)

    def put_away(self) -> None:
        """Remove the messages that were taken, once all that they lead to is done."""
        for path in self._done:
            self._inbox.remove(path)
        self._done.clear()
        self._quota.tell_left_out(_log)

    def _may_linger(self, new: tuple[Letter, ...]) -> bool:
        """Keep the news for later if it only closes transfers and nobody waits for their room."""
        if self.premature or not 0 < len(new) <= LINGERING:
            return False
        if any(letter.message.kind != Kind.CLOSED for letter in new):
            return False
        if not self._lingering:
            self._lingering_since = self._clock.steady_s()
        self._lingering = new
        return self._clock.steady_s() - self._lingering_since < self.linger_s

    def _take(self, letter: Letter, changed: set[Key]) -> list[str]:
        """Take one message; return the files that it makes superfluous."""
        message = letter.message
        if message.kind == Kind.ASK:
            return self._answer(letter)
        known = self._ledger.find((message.transfer, letter.uid))
        if known is None and message.kind == Kind.RECORD and self._has_many(letter.uid):
            return self._postpone(letter)
        received = self._received(letter, known)
        taken = judge(received)
        if known is None and self.unproved.keeps(letter, taken):
            self.premature.pop(letter.path, None)
            return self.unproved.park(letter, taken)
        if isinstance(taken, Rejected):
            refused = self._refuse(letter, taken, known is None)
            if refused:
                self._refusals.keep(received, taken)
            return refused
        self.premature.pop(letter.path, None)
        return self._keep(letter, known, taken if known else self.unproved.admit(taken), changed)

    def _keep(
        self, letter: Letter, known: Transfer | None, taken: Transfer, changed: set[Key]
    ) -> list[str]:
        """Keep the transfer as a message leaves it; return the files that it makes superfluous."""
        if taken == known:
            return [letter.path] if letter.path != taken.record else []
        changed.add(taken.key)
        self._ledger.keep(taken)
        if known is None or known.but(record=taken.record) != taken:
            self._ledger.note(taken, taken.reason)
        if letter.message.kind != Kind.RECORD:
            return [letter.path]
        return [known.record] if known and known.record != letter.path else []

    def _received(self, letter: Letter, known: Transfer | None) -> Received:
        """Return a message with what decides about it.

        A transfer that was sent when its queue was configured still leads there.
        """
        return Received(
            message=letter.message,
            known=known,
            home=self._home,
            routes=frozenset(self._routes | ({(known.queue, known.remote)} if known else set())),
            uid=letter.uid,
            owner=_login(letter.uid),
            record=letter.path,
            now=self._clock.now(),
        )

    def _has_many(self, uid: int) -> bool:
        """Say whether somebody has as many transfers as may be open.

        Each keeps its record in the spool, and those that have ended for a while too: a quarter
        of the files at least is for their news.
        """
        open_, ended = (
            sum(other == uid for _, other in known)
            for known in (self._ledger.open, self._ledger.ended)
        )
        half = max(1, self._limit // 2)
        return open_ >= half or open_ + ended >= half + half // 2 + 1

    def _postpone(self, letter: Letter) -> list[str]:
        """Keep a new transfer until there is room for it, as far as early messages are kept."""
        if not self._may_wait(letter):
            reason = f"{self._limit // 2} transfers are open"
            return self._refuse(
                letter, Rejected(what=letter.message.transfer, reason=reason), False
            )
        self.premature[letter.path] = self._clock.steady_s(), letter
        return []

    def _answer(self, letter: Letter) -> list[str]:
        """Tell a restarted task which transfer it is."""
        message = letter.message
        if fault(message) or not message.wake:
            return self._refuse(letter, Rejected(what="question", reason="no FIFO of ours"), False)
        attempts = self._ledger.attempts(message.transfer, letter.uid)
        ended = of_asker(attempts, message)
        if ended and self._unheard_ends.awaits(ended):
            self._ledger.reopen(ended)
            attempts = self._ledger.attempts(message.transfer, letter.uid)
        attempts = tuple(self._disowned(one, message) for one in attempts)
        self.asked |= {one.key for one in attempts if is_succeeded(one, message)}
        asleep = [one.wake for one in attempts if self._acts.is_asleep(one)]
        if reply := answer(attempts, message, asleep):
            known = self._ledger.find((reply.transfer, letter.uid))
            stage = self._inbox.stage_of(known.record) if known else ""
            self._acts.reply(message.wake, letter.uid, reply.but(stage=stage))
        return [letter.path]

    def _disowned(self, one: Transfer, message: Message) -> Transfer:
        """Close a transfer whose number another job has by now; the other job waits until then."""
        is_live = not one.is_over and one.desired != Desired.DEAD and one.wake != message.wake
        if not is_live or not is_of_another_job(message, self._inbox.submitted_of(one.record)):
            return one
        one = one.but(desired=Desired.DEAD, updated_at=self._clock.now(), reason=ANOTHERS)
        self._ledger.keep(one)
        self._ledger.note(one, ANOTHERS)
        return one

    def _refuse(self, letter: Letter, refusal: Rejected, is_early: bool) -> list[str]:
        """Keep a message that came before its record for a while; report any other."""
        first_at, _ = self.premature.get(letter.path, (self._clock.steady_s(), letter))
        if is_early and self._may_wait(letter) and self._clock.steady_s() - first_at < PREMATURE_S:
            self.premature[letter.path] = first_at, letter
            return []
        self.premature.pop(letter.path, None)
        if self._quota.allows(letter.uid):
            why = short(refusal.reason)
            _log.warning("event=refused uid=%d what=%s why=%r", letter.uid, refusal.what, why)
        return [letter.path]

    def _may_wait(self, letter: Letter) -> bool:
        """Say whether an early message may be kept; each costs a look in every round."""
        of_uid = sum(other.uid == letter.uid for _, other in self.premature.values())
        return letter.path in self.premature or of_uid < PREMATURE_OF_UID


def _series(letter: Letter) -> tuple[str, ...]:
    """Return the key of letters of which only the last counts: one starter's records."""
    message = letter.message
    if message.kind != Kind.RECORD:
        return (letter.path,)
    return (message.transfer, str(letter.uid), message.wake)


def _rank(kind: str) -> int:
    """Order messages that came together; the times of other hosts' clocks say nothing."""
    return KIND_ORDER.index(kind) if kind in KIND_ORDER else len(KIND_ORDER)


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
