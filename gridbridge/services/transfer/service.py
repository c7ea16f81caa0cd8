"""The transfer service: what the poller does in each of its rounds.

A round takes the spool's messages and the clusters' answers, decides, acts, publishes, and
says in one sentence what it did. Nothing is lost by its death: a message leaves the spool only
after the state file has it, and every act is safe to repeat.
"""

import logging
import operator
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.apply.transfer.acts import Acts, disputed, no_trace
from gridbridge.decisions.transfer import dropped
from gridbridge.decisions.transfer import plan as rules
from gridbridge.decisions.transfer.plan import World
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import Cause, Message
from gridbridge.model.places import SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.plan import Act, Action
from gridbridge.model.transfer.transfer import Key, Transfer
from gridbridge.services.site.room import RoomWatch
from gridbridge.services.transfer.agreements import Agreements
from gridbridge.services.transfer.breakers import Breakers
from gridbridge.services.transfer.claims import Claims
from gridbridge.services.transfer.cleaner import Cleaner
from gridbridge.services.transfer.decided import Decided
from gridbridge.services.transfer.guards.copied import Copies
from gridbridge.services.transfer.guards.late import LateGuards
from gridbridge.services.transfer.guards.missing import Guards
from gridbridge.services.transfer.history import JobHistory
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.transfer.mail import Mail
from gridbridge.services.transfer.recalls import Recalls
from gridbridge.services.transfer.recovery import Recovery
from gridbridge.services.transfer.strangers import Strangers
from gridbridge.services.transfer.sweeper import Sweeper
from gridbridge.services.transfer.unheard import UnheardEnds
from gridbridge.services.transfer.usage import UsageRecords
from gridbridge.services.transfer.views import Views
from gridbridge.services.watch.answers import Answers
from gridbridge.services.watch.listener import Listener
from gridbridge.services.watch.observer import Answer, Observer
from gridbridge.services.watch.push import Push
from gridbridge.services.work.dispatch import Dispatcher
from gridbridge.services.work.workers import Workers
from gridbridge.shell.clock import Clock
from gridbridge.state import spool
from gridbridge.state.database import Database
from gridbridge.state.inbox import Inbox

PAUSE_S = 10.0  # between two rounds, which come twice a second

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class TransferService:
    """The state between rounds; all that matters of it is in the state file too."""

    policy: Policy
    database: Database
    inbox: Inbox
    acts: Acts
    views: Views
    observers: dict[str, Observer]
    pushes: dict[str, Push | Listener] = field(default_factory=dict)
    workers: Workers = field(default_factory=Workers)
    spool: str = SPOOL
    clock: Clock = field(default_factory=Clock)
    since_s: float = field(init=False)  # asking without a pause
    looked_at_s: float = field(init=False)
    unwanted: dict[str, datetime] = field(init=False)  # at home, since when
    job_history: JobHistory = field(init=False)
    breakers: Breakers = field(init=False)
    ledger: Ledger = field(init=False)
    decided: Decided = field(init=False)
    mail: Mail = field(init=False)
    answers: Answers = field(init=False)
    unheard_ends: UnheardEnds = field(init=False)
    guards: Guards = field(init=False)
    copies: Copies = field(init=False)
    strangers: Strangers = field(init=False)
    cleaner: Cleaner = field(init=False)
    recovery: Recovery = field(init=False)
    usage_records: UsageRecords = field(init=False)
    dispatcher: Dispatcher = field(init=False)
    late_guards: LateGuards = field(init=False)
    recalls: Recalls = field(init=False)
    claims: Claims = field(init=False)
    room: RoomWatch = field(init=False)
    agreements: Agreements = field(init=False)
    sweeper: Sweeper = field(init=False)

    def __post_init__(self) -> None:
        self.since_s = self.looked_at_s = self.clock.steady_s()
        self.unwanted = self.clock.dated(operator.add)
        self.job_history = JobHistory(self.policy.site.cluster, self.database, self.views)
        self.breakers = Breakers(self.policy.breaker, self.views, self.clock)
        self.ledger = Ledger(self.database, self.job_history, self.breakers, self.clock)
        self.decided = Decided(self.database)
        self.unheard_ends = UnheardEnds(self.database, self.clock)
        self.mail = Mail(
            self.policy, self.inbox, self.ledger, self.acts, self.unheard_ends, self.clock
        )
        self.answers = Answers(self.observers, self.database, self.views, self.clock)
        self.claims = Claims(self.policy, self.ledger, self.acts, self.workers, self.clock)
        self.cleaner = Cleaner(
            self.ledger,
            self.inbox,
            self.acts,
            self.workers,
            self.claims,
            self.act,
            self.clock.steady_s,
        )
        self.recovery = Recovery(self.spool)
        self.usage_records = UsageRecords(
            policy=self.policy, database=self.database, views=self.views, clock=self.clock
        )
        self.guards = Guards(
            self.policy, self.ledger, self.acts, self.workers, self.act, self.clock.steady_s
        )
        self.copies = Copies(self.policy, self.ledger, self.acts, self.workers, self.clock.steady_s)
        self.strangers = Strangers(self.ledger, self.acts, self.workers)
        self.dispatcher = Dispatcher(
            self.acts, self.workers, self.usage_records, self.clock.steady_s
        )
        self.late_guards = LateGuards(self.database, self.ledger, self.dispatcher, self.clock)
        self.recalls = Recalls(
            self.policy, self.ledger, self.acts, self.workers, self.claims, self.clock
        )
        self.room = RoomWatch((self.spool, self.views.folder), self.clock.steady_s)
        self.agreements = Agreements(self.policy, self.ledger, self.acts, self.clock.steady_s)
        places = (self.database, self.inbox, self.acts, self.ledger)
        keepers = (self.job_history, self.cleaner, self.claims, self.usage_records)
        self.sweeper = Sweeper(self.policy, *places, *keepers, self.clock)

    def load(self) -> None:
        """Take up what an earlier process left in the state file."""
        self.clock.step()  # before this: what is loaded is not moved by it
        self.acts.hide_names()
        self.ledger.load()
        self.unheard_ends.load(self.clock.now())
        self.late_guards.load(self.clock.now())
        self.usage_records.load()
        self.recalls.load()
        self.claims.load()
        for one in self.ledger.ended.values():
            self.tidy(one)
        self.show_routes()

    def show_routes(self) -> None:
        """Show where each queue leads, and tell of the clusters that transfers are still at."""
        used = {(one.queue, one.remote) for one in self.ledger.all()}
        self.mail.allow(used)  # their routes stay where starters read them
        self.views.routes(frozenset(queue for queue, _ in used))
        self.views.asked(self.observers)
        for cluster in sorted(self.dropped()):
            _log.warning("event=dropped cluster=%s why=%r", cluster, dropped.sentence(cluster))

    def shut_down(self) -> None:
        """Give back what is held of the machine: files, threads, programs. May be repeated."""
        self.database.close()
        self.workers.dismiss()
        self.usage_records.dismiss()
        for observer in self.observers.values():
            observer.dismiss()
        for push in self.pushes.values():
            push.stop()

    def round(self) -> None:
        """Take what came, decide and act on it, publish; one transaction, if there is news."""
        self.keep_time()
        with self.ledger.transaction():
            came = self.answers.take()  # before the letters, which have to be at least as new
            changed = [*self.take_letters(at_once=bool(came)), *self.take_results()]
            self.usage_records.take()
            self.take_pushes()
            self.hear(came)
            if came:
                self.strangers.see(came, self.policy, lambda: self.world(()))
                self.plan(tuple(self.ledger.all()))
                self.guards.see(came, self.policy.site.cluster)
                self.copies.see(came)
                self.cleaner.clean(self.world(()), self.mail.unproved.names())
                everything = self.world(tuple(self.ledger.all()))
                self.claims.decide(everything)
                self.recalls.decide(everything, self.views.troubles(self.breakers.why()))
                self.agreements.decide(everything, self.recalls.out())
            elif changed:
                self.plan(self.ledger.among(changed))
            self.publish(bool(came or changed))
        self.mail.put_away()
        self.claims.send()  # what the state file has
        self.guards.send()
        for observer in self.observers.values():
            observer.ask_if_due(self.wanted)
        self.usage_records.look_if_due()

    def keep_time(self) -> None:
        """Keep every duration though the clock was set; set back, no answer would be fresh."""
        if step := self.clock.step():
            _log.warning("event=clock_set by_s=%+.0f", step.total_seconds())
            self.ledger.rewrite()
            self.breakers.begin_anew()
            self.agreements.forget()
        now_s = self.clock.steady_s()
        if now_s - self.looked_at_s > PAUSE_S:  # we were stopped, and have heard nobody
            self.since_s = now_s
        self.looked_at_s = now_s

    def take_letters(self, at_once: bool) -> list[Key]:
        """Take what people's processes say; return whose transfers changed."""
        changed = self.mail.take(at_once)
        for one in changed:
            if one.is_over:
                self.forget(one)
        return [one.key for one in changed]

    def take_pushes(self) -> None:
        """Look up the ends that clusters have pushed."""
        for cluster, push in self.pushes.items():
            if ids := push.ended():
                for action in rules.pushed(self.ledger.all(), cluster, ids):
                    self.dispatcher.forget(action.transfer.key)
                    self.act(action)

    def hear(self, came: tuple[Answer, ...]) -> None:
        """Take what the clusters answered."""
        for answer in came:
            if answer.snapshot and answer.cluster == self.policy.site.cluster:
                for one in self.unheard_ends.hear(answer.snapshot, frozenset(self.policy.queues)):
                    self.ledger.reopen(one)
                for one in self.unheard_ends.prove(answer.snapshot):
                    self.ledger.prove(one)
                self.breakers.prove(answer.snapshot, self.ledger.all())
                self.late_guards.see(answer.snapshot)
                self.mail.hear(answer.snapshot, self.answers.good)
            if self.recovery.hear(answer, self.ledger.all()):
                self.dispatcher.recover()

    def plan(self, concerned: tuple[Transfer, ...]) -> None:
        """Decide about transfers, note what is now known of them, and act."""
        world = self.world(concerned)
        plan = rules.plan(concerned, world, self.policy.poller)
        self.decided.keep(concerned, world, self.policy.poller, plan)
        for one in plan.transfers:
            if rules.is_unwanted(one, world):
                self.unwanted.setdefault(one.name, world.now)
            else:
                self.unwanted.pop(one.name, None)
        for before, one in zip(concerned, plan.transfers, strict=True):
            if before != one:
                self.ledger.keep(one)
            if before.cause != one.cause == Cause.DROPPED:
                self.ledger.note(one, one.reason)
        for action in plan.actions:
            self.act(action)

    def world(self, concerned: tuple[Transfer, ...]) -> World:
        """Gather what a decision about these transfers may look at."""
        asleep = (one.wake for one in concerned if spool.is_asleep(one.wake, one.uid, self.spool))
        return World(
            home=self.policy.site.cluster,
            now=self.clock.now(),
            snapshots=dict(self.answers.good),
            asleep=frozenset(asleep),
            requeued_jobs=rules.requeued_jobs(self.ledger.all()),
            dropped=self.dropped(),
            queues=frozenset(self.policy.queues),
            asked=frozenset(self.mail.asked),
            since=self.clock.moment(self.since_s),
            unwanted=self.unwanted,
            strangers=self.strangers.now(),
        )

    def dropped(self) -> frozenset[str]:
        """Return the clusters of open transfers that gridbridge.toml does not have."""
        return self.ledger.clusters() - self.policy.clusters.keys()

    def has_unasked(self) -> bool:
        """Say whether a configured cluster has open transfers, and nobody asks it.

        It was left alone when the last queue to it was taken out, before their starters spoke.
        """
        return bool(self.ledger.clusters() & self.policy.clusters.keys() - self.observers.keys())

    def act(self, action: Action) -> None:
        """Do what is quick; have the owner's threads do what needs a cluster, once at a time."""
        one = action.transfer
        if action.act is Act.CLOSE:
            self.close(action.transfer, action.why)
        elif action.act is Act.PUBLISH:
            self.usage_records.tell_end(one)
            self.acts.publish(action)
        elif one.remote in self.observers and self.dispatcher.may_begin(action):
            self.ledger.note(one, f"{action.act.value}: {action.why}")
            self.dispatcher.begin(action)

    def take_results(self) -> list[Key]:
        """Take what the threads have done; return whose transfers changed."""
        changed = []
        for action, verdict in self.dispatcher.done():
            one = self.ledger.find(action.transfer.key)
            if action.transfer.is_over and action.act is Act.RELEASE_LOCAL:
                self.late_guards.done(action.transfer)
            elif one and not one.is_over and self.take_result(action, one, verdict):
                changed.append(one.key)
        self.strangers.believe(self.dispatcher.not_ours)
        return changed

    def take_result(self, action: Action, one: Transfer, verdict: Message | None) -> bool:
        """Note what an act has led to; say whether there is something new to decide."""
        if action.act is Act.RELEASE_LOCAL:
            self.close(one, action.why)
            return False
        if action.act is Act.GUARD_LOCAL:
            return False
        if action.act in (Act.ADOPT_LOCAL, Act.UNPIN):
            self.ledger.keep(one.but(pinned=action.act is Act.ADOPT_LOCAL))
            return False
        is_sought = action.act is Act.LOOK_UP_END
        if is_disputed := is_sought and one.key in self.dispatcher.disputed:
            self.ledger.note(one, disputed(action).reason)
        if (
            verdict is None
            and is_sought
            and rules.is_lost(one, self.policy.poller, self.clock.now())
        ):
            verdict = disputed(action) if is_disputed else no_trace(action)
        if verdict:
            verdict = self.claims.limited(one, verdict)
            verdict = one.verdict or verdict
            self.ledger.keep(
                one.but(verdict=verdict, cause=verdict.cause, updated_at=self.clock.now())
            )
        return verdict is not None

    def close(self, transfer: Transfer, why: str) -> None:
        """End a transfer of which nothing lives."""
        now = self.clock.now()
        closed = transfer.but(closed_at=now, updated_at=now, reason=why)
        self.ledger.keep(closed)
        self.ledger.note(closed, why)
        self.forget(closed)

    def forget(self, closed: Transfer) -> None:
        """Remove what only a living transfer needs; its record stays until its job is gone."""
        self.unwanted.pop(closed.name, None)
        self.ledger.forget(closed)
        self.mail.asked.discard(closed.key)
        self.unheard_ends.say(closed)
        self.late_guards.say(closed)
        self.dispatcher.forget(closed.key)
        self.decided.forget(closed.key)
        self.tidy(closed)

    def tidy(self, closed: Transfer) -> None:
        """Remove its verdict and its FIFO; may be repeated."""
        self.acts.retract(closed.name, closed.uid)
        spool.remove_wake(closed.wake, self.spool)

    def publish(self, is_news: bool) -> None:
        """Show people and programs what they may see."""
        closed = self.breakers.closed(self.ledger.all()) | self.answers.silent()
        self.views.load(self.answers.good, self.observers, closed, self.room.lacks())
        self.job_history.publish()
        if is_news:
            self.views.transfers(self.ledger.all(), self.answers.good)
        self.sweeper.sweep_if_due()

    def wanted(self) -> frozenset[int]:
        """Return the job ids, local and remote, that a snapshot must keep."""
        watched = (*self.ledger.all(), *self.ledger.ended.values())
        ids = {one.remote_id for one in watched} | {
            parse_transfer(one.name).job for one in self.ledger.all()
        }
        others = self.unheard_ends.jobs() | self.breakers.jobs() | self.late_guards.jobs()
        return frozenset(ids | others | self.mail.unproved.jobs())
