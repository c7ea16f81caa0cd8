"""The parts of the transfer service, put together."""

from dataclasses import dataclass, field

from gridbridge.apply.transfer.acts import Acts
from gridbridge.model.places import SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer import Transfer
from gridbridge.services.journal import Journal
from gridbridge.services.transfer.breakers import Breakers
from gridbridge.services.transfer.claims import Claims
from gridbridge.services.transfer.cleaner import Cleaner
from gridbridge.services.transfer.dispatch import Dispatcher
from gridbridge.services.transfer.guards.copied import Copies
from gridbridge.services.transfer.guards.late import LateGuards
from gridbridge.services.transfer.guards.missing import Guards
from gridbridge.services.transfer.journalled.plans import Decided
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.transfer.mail.mail import Mail
from gridbridge.services.transfer.published.history import JobHistory
from gridbridge.services.transfer.published.views import Views
from gridbridge.services.transfer.recalls import Recalls
from gridbridge.services.transfer.round.actions import Actions
from gridbridge.services.transfer.round.hearing import Hearing
from gridbridge.services.transfer.round.intake import Intake
from gridbridge.services.transfer.round.order import Order
from gridbridge.services.transfer.round.recovery import Recovery
from gridbridge.services.transfer.round.showing import Showing
from gridbridge.services.transfer.round.sweeper import Sweeper
from gridbridge.services.transfer.round.upkeep import Upkeep
from gridbridge.services.transfer.round.worlds import Worlds
from gridbridge.services.transfer.strangers import Strangers
from gridbridge.services.transfer.suspensions import Suspensions
from gridbridge.services.transfer.unheard import UnheardEnds
from gridbridge.services.transfer.usage.records import UsageRecords
from gridbridge.services.watch.answers import Answers
from gridbridge.services.watch.listener import Listener
from gridbridge.services.watch.observer import Observer
from gridbridge.services.watch.push import Push
from gridbridge.services.watch.room import RoomWatch
from gridbridge.services.work.workers import Workers
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.inbox import Inbox


@dataclass(slots=True, kw_only=True)
class Parts:
    """All that keeps something between rounds; what matters of it is in the state file too."""

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
    job_history: JobHistory = field(init=False)
    breakers: Breakers = field(init=False)
    ledger: Ledger = field(init=False)
    decided: Decided = field(init=False)
    journal: Journal = field(init=False)
    mail: Mail = field(init=False)
    answers: Answers = field(init=False)
    unheard_ends: UnheardEnds = field(init=False)
    strangers: Strangers = field(init=False)
    worlds: Worlds = field(init=False)
    claims: Claims = field(init=False)
    usage_records: UsageRecords = field(init=False)
    dispatcher: Dispatcher = field(init=False)
    late_guards: LateGuards = field(init=False)
    actions: Actions = field(init=False)
    cleaner: Cleaner = field(init=False)
    recalls: Recalls = field(init=False)
    suspensions: Suspensions = field(init=False)
    upkeep: Upkeep = field(init=False)
    sweeper: Sweeper = field(init=False)
    hearing: Hearing = field(init=False)
    order: Order = field(init=False)

    def __post_init__(self) -> None:
        self._know()
        self._act()
        self._look_after()
        self._go_round()

    def _know(self) -> None:
        """Make what knows of transfers and clusters."""
        policy, clock = self.policy, self.clock
        self.job_history = JobHistory(policy.site.cluster, self.database, self.views)
        self.breakers = Breakers(policy.breaker, self.views, clock)
        self.ledger = Ledger(self.database, self.job_history, self.breakers, clock)
        self.decided, self.journal = Decided(), Journal(self.database)
        self.unheard_ends = UnheardEnds(self.database, clock)
        told = (self.ledger, self.acts, self.unheard_ends)
        self.mail = Mail(policy, self.inbox, *told, clock, self.journal)
        self.answers = Answers(self.observers, self.database, self.views.answer, clock)
        self.strangers = Strangers(self.ledger, self.acts, self.workers, self.clock.steady_s)
        self.worlds = Worlds(
            policy=policy,
            ledger=self.ledger,
            answers=self.answers,
            mail=self.mail,
            strangers=self.strangers,
            spool=self.spool,
            clock=clock,
        )

    def _act(self) -> None:
        """Make what acts for transfers."""
        policy, clock = self.policy, self.clock
        self.claims = Claims(policy, self.ledger, self.acts, self.workers, clock)
        self.usage_records = UsageRecords(
            policy=policy, database=self.database, views=self.views, clock=clock
        )
        self.dispatcher = Dispatcher(self.acts, self.workers, self.usage_records, clock.steady_s)
        self.late_guards = LateGuards(self.database, self.ledger, self.dispatcher, clock)
        self.actions = Actions(
            policy=policy,
            ledger=self.ledger,
            acts=self.acts,
            dispatcher=self.dispatcher,
            usage_records=self.usage_records,
            claims=self.claims,
            late_guards=self.late_guards,
            asked=self.observers,
            over=self.let_go,
            clock=clock,
        )

    def _look_after(self) -> None:
        """Make what looks after all that is away, and after what is left of it."""
        policy, act, steady_s = self.policy, self.actions.act, self.clock.steady_s
        known = (self.ledger, self.acts, self.workers)
        self.cleaner = Cleaner(
            self.ledger, self.inbox, self.acts, self.workers, self.claims, act, steady_s
        )
        self.recalls = Recalls(policy, *known, self.claims, self.clock, self.journal)
        self.suspensions = Suspensions(policy, self.ledger, self.acts, steady_s)
        self.upkeep = Upkeep(
            policy=policy,
            worlds=self.worlds,
            guards=Guards(policy, *known, act, steady_s),
            copies=Copies(policy, *known, steady_s),
            cleaner=self.cleaner,
            claims=self.claims,
            recalls=self.recalls,
            suspensions=self.suspensions,
            views=self.views,
            breakers=self.breakers,
        )
        places = (self.database, self.inbox, self.acts, self.ledger)
        keepers = (self.job_history, self.cleaner, self.claims, self.usage_records)
        self.sweeper = Sweeper(policy, *places, *keepers, self.clock)

    def _go_round(self) -> None:
        """Make what takes news in, the order of a round, and what shows its end."""
        self.hearing = Hearing(
            policy=self.policy,
            ledger=self.ledger,
            unheard_ends=self.unheard_ends,
            breakers=self.breakers,
            late_guards=self.late_guards,
            mail=self.mail,
            recovery=Recovery(self.spool),
            dispatcher=self.dispatcher,
            strangers=self.strangers,
            worlds=self.worlds,
        )
        intake = Intake(
            answers=self.answers,
            mail=self.mail,
            usage_records=self.usage_records,
            pushes=self.pushes,
            actions=self.actions,
            hearing=self.hearing,
        )
        showing = Showing(
            ledger=self.ledger,
            answers=self.answers,
            observers=self.observers,
            breakers=self.breakers,
            room=RoomWatch((self.spool, self.views.folder), self.clock.steady_s),
            job_history=self.job_history,
            views=self.views,
            sweeper=self.sweeper,
        )
        self.order = Order(
            policy=self.policy,
            journal=self.journal,
            ledger=self.ledger,
            intake=intake,
            worlds=self.worlds,
            decided=self.decided,
            actions=self.actions,
            upkeep=self.upkeep,
            showing=showing,
        )

    def let_go(self, closed: Transfer) -> None:
        """Tell those who keep something of a transfer that it is over."""
        self.worlds.unwanted.pop(closed.name, None)
        self.ledger.forget(closed)
        self.mail.questions.asked.discard(closed.key)
        self.unheard_ends.say(closed)
        self.late_guards.say(closed)
        self.dispatcher.forget(closed.key)
        self.decided.forget(closed.key)
