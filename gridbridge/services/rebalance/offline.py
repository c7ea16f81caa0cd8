"""What would be moved of the hosts, jobs and tasks that a file tells of."""

from collections.abc import Mapping
from typing import Any

from gridbridge.config.rebalance import SECTION
from gridbridge.errors import ConfigError
from gridbridge.model.rebalance.sections import Rebalance
from gridbridge.services.rebalance.deciding import Asked, Planned, planned
from gridbridge.state.rebalance import saved


def plan(path: str, what: str = "", name: str = "") -> Planned:
    """Decide about a file: a round, or what a host or a job needs, or what leaves a failed host.

    Raises ParseError for what is no JSON, and ConfigError with a line for each thing that is wrong.
    """
    snapshot, policy = saved.read(path)
    return planned(path, snapshot, _rules(path, policy), Asked(what=what, name=name))


def _rules(path: str, policy: Mapping[str, object]) -> Rebalance:
    """Return the usual rules with what a file says of them."""
    table: Any = {key: _whole(value) for key, value in policy.items()}
    problems = [f"{path}: policy: {told}" for told in SECTION.problems(table)]
    if problems:
        raise ConfigError(tuple(problems))
    given = SECTION.read(table)
    assert isinstance(given, Rebalance)
    return given


def _whole(value: object) -> object:
    """Return a number such as 3e11 as the whole number that it is; anything else stays."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
