"""What the balancer would do now, or where somebody saved what it looks at."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gridbridge.errors import ConfigError
from gridbridge.model.elastic.plan import Rules
from gridbridge.model.elastic.sections import Balance, Demand, Pool
from gridbridge.model.elastic.told import Told
from gridbridge.model.places import CONFIG
from gridbridge.services.elastic import deciding, looking
from gridbridge.services.tools import configured

HOUR_S = 3600.0
NO_POOLS: Mapping[str, Pool] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a command line says; None: what gridbridge.toml says."""

    policy: str | None = None
    max_nodes: int | None = None
    min_nodes: int | None = None
    add_nodes_per_iteration: int | None = None
    job_wait_time_s: float | None = None
    kill_after_min: int | None = None
    stabilization_s: float | None = None
    is_faithful: bool = False


def plan(given: Given, now: datetime, folder: str = "", path: str = CONFIG) -> Told:
    """Decide as a round would, and do nothing.

    A folder is decided about without a cell, and without gridbridge.toml if no path is given.
    Raises NotSeen or ParseError when what is looked at is no whole answer, ConfigError for limits
    that contradict each other.
    """
    if folder and not path:
        seen, rules, demand, pools = looking.look_at(folder), Balance(), Demand(), NO_POOLS
    else:
        policy, _ = configured.load(path)
        rules, demand, pools = policy.balance, policy.demand, policy.pools
        seen = looking.look_at(folder) if folder else looking.look(policy, now)
    rules, demand = _with(rules, given), _patience(demand, given)
    return deciding.decide(seen, rules, demand, pools, is_faithful=given.is_faithful)


def snapshot(folder: str, now: datetime, path: str = CONFIG) -> None:
    """Save what a round looks at now in a folder; NotSeen or OutputError when it can't be."""
    policy, _ = configured.load(path)
    looking.save(policy, folder, now)


def _with(rules: Balance, given: Given) -> Balance:
    words: dict[str, Any] = {  # of each key its own type
        "policy": Rules(given.policy) if given.policy else None,
        "max_nodes": given.max_nodes,
        "min_nodes": given.min_nodes,
        "add_nodes_per_iteration": given.add_nodes_per_iteration,
        "job_wait_time_s": given.job_wait_time_s,
        "kill_after_min": given.kill_after_min,
        "stabilization_s": given.stabilization_s,
    }
    found = replace(rules, **{key: one for key, one in words.items() if one is not None})
    if 0 < found.max_nodes < found.min_nodes:
        raise ConfigError(
            (f"min_nodes is {found.min_nodes}; at most max_nodes ({found.max_nodes}) is right",)
        )
    return found


def _patience(demand: Demand, given: Given) -> Demand:
    """Return policy demand's own keys, for which StarCluster's options stand as well."""
    window = None if given.kill_after_min is None else 1 - given.kill_after_min * 60 / HOUR_S
    words: dict[str, Any] = {
        "add_at_once": given.add_nodes_per_iteration,
        "wait_s": given.job_wait_time_s,
        "billing_s": None if window is None else HOUR_S,
        "billing_window": window,
        "grow_pause_s": given.stabilization_s,
        "shrink_pause_s": given.stabilization_s,
    }
    return replace(demand, **{key: one for key, one in words.items() if one is not None})
