"""A running balancer applies a changed gridbridge.toml, and stops acting if the file forbids it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from gridbridge.elastic.balancer.balancer_configuration_reload import ReloadingBalancer
from gridbridge.elastic.balancer.balancer_daemon import BalancerDaemon, BalancerRunOptions
from gridbridge.errors import ConfigError
from gridbridge.model.site_configuration import Policy
from gridbridge.program.configuration_in_force import ReloadableConfiguration
from gridbridge.shell.clock import Clock
from tests.elastic.site_text import ALPHA

SITE = f"""{ALPHA}
[provider.works]
program = "/opt/works"
[pool.usual]
provider = "works"
[balance]
apply = {{apply}}
max_nodes = {{most}}
interval_s = 7
"""


@dataclass
class Site:
    path: Path
    lasting: ReloadingBalancer
    made: list[BalancerRunOptions]  # what it began with, and began anew with
    clock_s: list[float]

    def turn(self, text: str) -> tuple[int, bool]:
        """Change the configuration file; return the new max_nodes, and whether the balancer acts."""
        self.path.write_text(text)
        for _ in range(2):
            self.lasting.should_start_cycle_early()
            self.clock_s[0] += 1
        self.lasting.open_cycle()
        return self.made[-1].rules.max_nodes, self.made[-1].is_acting


def by(policy: Policy) -> BalancerRunOptions:
    if policy.balance.max_nodes == 4:
        raise ConfigError(("min_nodes is 5; expected at most max_nodes (4)",))
    return BalancerRunOptions(policy=policy, rules=policy.balance, demand=policy.demand, is_acting=policy.balance.apply)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    path, clock_s, made = tmp_path / "site.toml", [0.0], list[BalancerRunOptions]()
    path.write_text(right())
    clock = Clock(steady=lambda: clock_s[0])
    configuration = ReloadableConfiguration(clock, str(path))

    def make(wanted: BalancerRunOptions) -> BalancerDaemon:
        made.append(wanted)
        return BalancerDaemon(wanted, clock)

    lasting = ReloadingBalancer(by(configuration.policy), configuration, by, make)
    return Site(path, lasting, made, clock_s)


def right(most: int = 9, apply: str = "true") -> str:
    return SITE.format(most=most, apply=apply)


def test_a_changed_configuration_applies_in_the_next_round(site: Site) -> None:
    assert site.turn(right()) == (9, True)
    assert site.turn(right(6)) == (6, True)
    assert len(site.made) == 2
    assert site.lasting.pause_s == 7


def test_an_invalid_configuration_is_logged_and_ignored(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert site.turn("[balance]\nmax_nodes = -1\n") == (9, True)
    assert "event=misconfigured" in caplog.text


@pytest.mark.parametrize(
    ("text", "why"),
    [(right(apply="false"), "apply is not true"), (right(0), "max_nodes is 0"), (right(4), "min_nodes is 5")],
    ids=["not to act", "no maximum", "an option contradicts it"],
)
def test_a_configuration_that_forbids_acting_turns_the_balancer_into_a_dry_run(
    site: Site, caplog: pytest.LogCaptureFixture, text: str, why: str
) -> None:
    (_, is_acting), (told,) = site.turn(text), [one for one in caplog.messages if why in one]

    assert not is_acting
    assert told.startswith("event=only_looks")
    assert site.turn(right(6)) == (6, True)
