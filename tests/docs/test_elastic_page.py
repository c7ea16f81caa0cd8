"""The sections of gridbridge.toml on the elastic pages are valid."""

import re
import textwrap
from dataclasses import fields

import pytest

from gridbridge.config import configuration_file
from gridbridge.elastic.balancer.balance_preview import BalanceRuleOverrides, apply_command_line_rules
from gridbridge.elastic.balancer.balancer_daemon import BalancerRunOptions, require_balancer_can_act
from gridbridge.elastic.cli.balance_plan_and_plot import plan
from gridbridge.model.site_configuration import Policy
from tests.docs.console import ROOT

HOW_TO = (ROOT / "docs/how-to/elastic.md").read_text()
REFERENCE = (ROOT / "docs/reference/elastic.md").read_text()
SITE = """
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 6444
execd_port = 6445
"""
OPTION = re.compile(r"^\| `(--\S+ \d+)` \| `(.+)` \| (.+) \|$", re.MULTILINE)


def configured(text: str) -> Policy:
    return configuration_file.parse_configuration("gridbridge.toml", f"{SITE}{text}".encode())


def test_the_first_sections_that_it_shows_are_enough_to_act() -> None:
    shown = HOW_TO.partition("## Set it up")[2].partition("```toml\n")[2].partition("```")[0]
    policy = configured(textwrap.dedent(shown))

    require_balancer_can_act(BalancerRunOptions(policy=policy, rules=policy.balance, demand=policy.demand))
    assert policy.pools["usual"].provider in policy.providers


def test_its_table_has_each_of_starclusters_numbers() -> None:
    assert [one[0].split()[0] for one in OPTION.findall(REFERENCE)] == [
        "--add-nodes-per-iteration",
        "--job-wait-time",
        "--kill-after",
        "--stabilization-time",
    ]


@pytest.mark.parametrize(("option", "key", "keys"), OPTION.findall(REFERENCE))
def test_an_option_does_what_the_keys_beside_it_do(option: str, key: str, keys: str) -> None:
    typed = plan.make_context("plan", option.split()).params
    given = BalanceRuleOverrides(**{one.name: typed[one.name] for one in fields(BalanceRuleOverrides)})
    policy = configured("[balance]\nmax_nodes = 9\n")
    told = "\n".join(re.findall("`(.+?)`", keys))
    wanted = configured(f"[balance]\nmax_nodes = 9\n{key}\n[demand]\n{told}\n")

    assert apply_command_line_rules(policy, given) == (wanted.balance, wanted.demand)
    assert (wanted.balance, wanted.demand) != (policy.balance, policy.demand)
