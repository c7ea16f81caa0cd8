"""What a round of the balancer is made of: the site, what is looked at, and what is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.decisions.elastic import round_acts
from gridbridge.decisions.elastic.node_alerts import manual_machine_removal_command
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balance_sections import (
    BalanceSection,
    DemandSection,
    PoolSection,
    ProviderSection,
    SqueezeSection,
)
from gridbridge.model.elastic.cell import TaskShape
from gridbridge.model.elastic.elastic_nodes import ProviderMachine
from gridbridge.model.elastic.owned_nodes import BalancerNodesSnapshot, DueNodeAct
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.model.elastic.standby_hosts import StandbyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedSite:
    """A site, and by what it is balanced."""

    cluster: str
    rules: BalanceSection
    demand: DemandSection
    pools: Mapping[str, PoolSection]
    needs_key: bool = False
    is_faithful: bool = False
    kills_master: bool = False  # when nothing else is left
    squeeze: SqueezeSection | None = None  # None: the site's own hosts are left as they are
    switched: frozenset[str] = frozenset()  # the pools of those hosts
    released: frozenset[str] = frozenset()  # the same, when they are not squeezed any more
    own_hosts: frozenset[str] = frozenset()  # short names, also of hosts that nobody squeezes
    sections: Mapping[str, ProviderSection] = field(default_factory=dict)  # who makes machines

    def ending(self, pool: str, machine: str) -> str:
        """Return what an administrator types who ends a machine of a pool by hand."""
        provider = self.pools.get(pool, PoolSection()).provider
        return manual_machine_removal_command(machine, provider, self.sections.get(provider))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """What a round looks at."""

    situation: BalanceSituation
    world: BalancerNodesSnapshot
    asked: round_acts.AdministratorNodeRequests
    movable: Mapping[str, tuple[TaskShape, ...]] = field(default_factory=dict)  # by host


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """What a round does."""

    plan: BalancePlan
    dues: tuple[DueNodeAct, ...]
    told: BalancePlanReport
    ended: tuple[str, ProviderMachine] | None = (
        None  # the master's pool and machine, if it is ended
    )
    rest: StandbyPlan | None = None  # what a squeeze decided; None: nobody squeezes

    @property
    def sentence(self) -> str:
        """What the policy decided, and why."""
        return self.told.sentence

    @property
    def done(self) -> tuple[str, ...]:
        """The acts of the round on nodes and on the master's machine, in words."""
        return (*(due.words for due in self.dues if due.is_done), *self.master_ended)

    @property
    def master_ended(self) -> tuple[str, ...]:
        """That the master's machine is ended, in words; empty in other rounds."""
        return (f"the master's machine {self.ended[1].id} is ended",) if self.ended else ()
