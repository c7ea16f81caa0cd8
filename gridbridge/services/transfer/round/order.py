"""The order of a round: what came, what is decided of it, and what follows from that."""

from dataclasses import dataclass

from gridbridge.decisions.transfer import plan as rules
from gridbridge.decisions.transfer.world import World
from gridbridge.model.message import Cause
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.plan import Plan
from gridbridge.model.transfer.transfer import Transfer
from gridbridge.services.journal import Entry, Journal
from gridbridge.services.transfer.journalled.plans import Decided
from gridbridge.services.transfer.ledger import Ledger
from gridbridge.services.transfer.round.actions import Actions
from gridbridge.services.transfer.round.intake import Intake
from gridbridge.services.transfer.round.showing import Showing
from gridbridge.services.transfer.round.upkeep import Upkeep
from gridbridge.services.transfer.round.worlds import Worlds
from gridbridge.services.watch.observer import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a round looks at: the answers that came, and the transfers that may have changed."""

    came: tuple[Answer, ...]
    is_news: bool  # an answer, or a transfer that changed
    concerned: tuple[Transfer, ...]
    world: World | None  # none where nothing is concerned


@dataclass(slots=True, kw_only=True)
class Order:
    """A round, as the cycle calls its parts."""

    policy: Policy
    journal: Journal
    ledger: Ledger
    intake: Intake
    worlds: Worlds
    decided: Decided
    actions: Actions
    upkeep: Upkeep
    showing: Showing

    def follow(self, policy: Policy) -> None:
        """Decide by another configuration."""
        self.policy = policy

    def gather(self) -> Seen:
        """Take what came; an answer concerns all transfers, other news those that it is of."""
        came, changed = self.intake.take()
        concerned = tuple(self.ledger.all()) if came else self.ledger.among(changed)
        return Seen(
            came=came,
            is_news=bool(came or changed),
            concerned=concerned,
            world=self.worlds.of(concerned) if concerned else None,
        )

    def decide(self, seen: Seen) -> Plan:
        """Decide about the transfers that are concerned."""
        if seen.world is None:
            return Plan()
        return rules.plan(seen.concerned, seen.world, self.policy.poller)

    def entry(self, seen: Seen, plan: Plan) -> Entry | None:
        """Tell what is decided anew."""
        if seen.world is None:
            return None
        return self.decided.entry(seen.concerned, seen.world, self.policy.poller, plan)

    def apply(self, seen: Seen, plan: Plan) -> None:
        """Note what is now known of the transfers, act, look after the rest, and show it."""
        if seen.world:
            self._note(seen.concerned, plan, seen.world)
        for action in plan.actions:
            self.actions.act(action)
        if seen.came:
            self.upkeep.see(seen.came)
        self.showing.show(seen.is_news)

    def _note(self, concerned: tuple[Transfer, ...], plan: Plan, world: World) -> None:
        self.worlds.note_unwanted(plan.transfers, world)
        for before, one in zip(concerned, plan.transfers, strict=True):
            if before != one:
                self.ledger.keep(one)
            if before.cause != one.cause == Cause.DROPPED:
                self.ledger.note(one, one.reason)
