"""The values of a balancer round: the site's settings, the round's inputs and its plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.decisions.elastic import node_acts_from_balance_plan
from gridbridge.decisions.elastic.nodes_needing_administrator import manual_machine_removal_command
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balance_sections import (
    BalanceSection,
    DemandPolicySection,
    MachineProviderSection,
    NodePoolSection,
    SqueezeSection,
)
from gridbridge.model.elastic.elastic_nodes import ProviderMachine
from gridbridge.model.elastic.grid_engine_cell_snapshot import TaskResourceRequests
from gridbridge.model.elastic.owned_nodes import BalancerNodesSnapshot, DueNodeAct
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.model.elastic.standby_hosts import StandbyOrWakePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteBalancerSettings:
    """The balancing settings of a site: its rules, pools and power-managed hosts."""

    cluster: str
    rules: BalanceSection
    demand: DemandPolicySection
    pools: Mapping[str, NodePoolSection]
    needs_key: bool = False
    is_faithful: bool = False
    kills_master: bool = False  # destroy the master's machine when the cluster is empty and idle
    squeeze: SqueezeSection | None = None  # None: hosts of the site are never powered off or on
    switched: frozenset[str] = frozenset()  # pools of the site's power-managed hosts
    released: frozenset[str] = frozenset()  # pools of hosts that are no longer squeezed
    own_hosts: frozenset[str] = frozenset()  # short names of all the site's power-managed hosts
    sections: Mapping[str, MachineProviderSection] = field(default_factory=dict)  # by name

    def ending(self, pool: str, machine: str) -> str:
        """Return the command by which an administrator destroys a machine of a pool."""
        provider = self.pools.get(pool, NodePoolSection()).provider
        return manual_machine_removal_command(machine, provider, self.sections.get(provider))


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRoundInputs:
    """The inputs of a balancer round: the cell's situation, the nodes, and pending requests."""

    situation: BalanceSituation
    world: BalancerNodesSnapshot
    asked: node_acts_from_balance_plan.AdministratorNodeRequests
    movable: Mapping[str, tuple[TaskResourceRequests, ...]] = field(default_factory=dict)  # by host


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRoundPlan:
    """The plan of a balancer round: node acts, their report, and the squeeze decision."""

    plan: BalancePlan
    dues: tuple[DueNodeAct, ...]
    told: BalancePlanReport
    # pool and machine of the master, if the round destroys the machine
    ended: tuple[str, ProviderMachine] | None = None
    rest: StandbyOrWakePlan | None = None  # the decision of the squeeze; None: squeeze is disabled

    @property
    def sentence(self) -> str:
        """The policy's decision and its reason."""
        return self.told.sentence

    @property
    def done(self) -> tuple[str, ...]:
        """The round's acts on nodes and on the master's machine, in words."""
        return (*(due.words for due in self.dues if due.is_done), *self.master_ended)

    @property
    def master_ended(self) -> tuple[str, ...]:
        """The act that destroys the master's machine, in words; empty in other rounds."""
        return (f"the master's machine {self.ended[1].id} is ended",) if self.ended else ()
