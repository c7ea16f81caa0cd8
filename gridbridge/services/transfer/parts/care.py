"""The parts that look after jobs that are away, and after what transfers leave behind."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.services.transfer.cleaner import Cleaner
from gridbridge.services.transfer.guards.copied import Copies
from gridbridge.services.transfer.guards.missing import Guards
from gridbridge.services.transfer.parts.acting import Acting
from gridbridge.services.transfer.parts.knowledge import Knowledge
from gridbridge.services.transfer.parts.resources import Resources
from gridbridge.services.transfer.recalls import Recalls
from gridbridge.services.transfer.suspensions import Suspensions


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """The parts that do what no plan of a round says: guards, recalls, cleaning up."""

    guards: Guards
    copies: Copies
    cleaner: Cleaner
    recalls: Recalls
    suspensions: Suspensions


def build(policy: Policy, at: Resources, known: Knowledge, acting: Acting) -> Care:
    """Make the parts that look after transfers, given those that know and those that act."""
    steady_s, act = at.clock.steady_s, acting.actions.act
    seen = (known.ledger, at.acts, at.workers)
    return Care(
        guards=Guards(policy, *seen, act, steady_s),
        copies=Copies(policy, *seen, steady_s),
        cleaner=Cleaner(known.ledger, at.inbox, at.acts, at.workers, acting.claims, act, steady_s),
        recalls=Recalls(policy, *seen, acting.claims, at.clock, known.journal),
        suspensions=Suspensions(policy, known.ledger, at.acts, steady_s),
    )
