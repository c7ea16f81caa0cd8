"""The balancer daemon: a broken provider, published figures, a moved clock and a changed gridbridge.toml."""

import json
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gridbridge.config import configuration_file
from gridbridge.decisions.elastic import clock_step_correction
from gridbridge.elastic.balancer import balance_situation_sources, balancer_daemon, balancer_statistics_and_publication
from gridbridge.elastic.balancer.balancer_configuration_reload import ReloadingBalancer
from gridbridge.elastic.balancer.balancer_daemon import BalancerDaemon, BalancerRunOptions, PublishedBalancerRoundRunner
from gridbridge.elastic.balancer.balancer_round_decision import BalancerRoundPlan
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.errors import ClusterStateUnknown, ConfigError
from gridbridge.model.elastic.balance_plan import WaitingJobsHistory
from gridbridge.model.elastic.balancer_config_sections import ProviderKind
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, HostJoinStep, PoolFailureRecord
from gridbridge.model.elastic.published_balance import PublishedBalancerFigures, PublishedPoolNodeCounters
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from gridbridge.model.host_clocks import HostClockReadings
from gridbridge.model.site_configuration import Policy
from gridbridge.program.configuration_in_force import ReloadableConfiguration
from gridbridge.program.service_cycle import run_cycle_once
from gridbridge.shell import local_host_facts
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_signals_and_heartbeat import ServiceHeartbeat
from gridbridge.state.state_file import StateFile
from tests.builders.programs import write_program
from tests.decisions.elastic.cells import MASTER, NOON, instance, situation, waiting
from tests.elastic.site_text import ALPHA, RACK, powered_hosts

SITE = (
    ALPHA
    + """
[provider.works]
program = "{works}"
[provider.others]
kind = "libcloud"
driver = "openstack"
credentials = "{secret}"
image = "i"
size = "s"
[pool.usual]
provider = "works"
price = 0.5
[balance]
max_nodes = 9
[pool.cloud]
provider = "others"
price = 9.0
"""
)
SCRIPT = """#!/bin/sh
case $1 in
list) cat {folder}/list ;;
create) exit 69 ;;
esac
"""
OFF = ElasticNodeState.STANDBY
MACHINE = {
    "id": "m-1",
    "name": "alpha-n1",
    "address": "10.0.0.1",
    "state": "running",
    "tags": {"gridbridge": "alpha", "gridbridge-pool": "usual"},
    "host_key": "",
}


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BalancerRunOptions:
    """Return options for a site with one working provider, and one whose credentials others can read."""
    works, secret = write_program(tmp_path / "works", SCRIPT.format(folder=tmp_path)), tmp_path / "secret"
    (tmp_path / "list").write_text("[]")
    secret.write_text("[default]\nkey = 1\n")
    secret.chmod(0o640)
    policy = configuration_file.parse_configuration("FILE", SITE.format(works=works, secret=secret).encode())
    seen = situation(instance(MASTER), instance("alpha-n1", (1,)), wait=[waiting(99, tasks=12)])
    monkeypatch.setattr(balance_situation_sources, "observe_balanced_cluster", lambda *_: seen)
    monkeypatch.setattr(local_host_facts, "is_this_host", lambda name: name == MASTER)
    return BalancerRunOptions(policy=policy, rules=policy.balance, demand=policy.demand)


@pytest.fixture
def rows(state_file: StateFile) -> BalancerStateRows:
    return BalancerStateRows(state_file)


def runner(rows: BalancerStateRows, wanted: BalancerRunOptions, **changed: Any) -> PublishedBalancerRoundRunner:
    return PublishedBalancerRoundRunner(replace(wanted, **changed), Clock(), rows)


def published(tmp_path: Path) -> PublishedBalancerFigures:
    found = balancer_statistics_and_publication.read_published_balance(str(tmp_path / "published"))
    assert found is not None
    return found


def rack_node(name: str, state: ElasticNodeState) -> BalancerOwnedNode:
    return BalancerOwnedNode(name=name, pool="rack", machine=name, since=NOON, state=state)


def policy_of(tmp_path: Path, more: str) -> Policy:
    text = SITE.format(works=tmp_path / "works", secret=tmp_path / "secret") + more
    return configuration_file.parse_configuration("FILE", text.encode())


def test_a_provider_that_cannot_be_set_up_does_not_stop_the_round_for_other_providers(
    wanted: BalancerRunOptions, rows: BalancerStateRows, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        seen = runner(rows, wanted).gather()

    assert {"usual": ()} == seen.world.machines
    assert "event=no_list pool=cloud why=" in caplog.text
    assert "readable by others; run chmod 600" in caplog.text


def test_without_any_usable_provider_the_round_ends_with_an_unknown_cluster_state(
    wanted: BalancerRunOptions, rows: BalancerStateRows, tmp_path: Path
) -> None:
    (tmp_path / "works").chmod(0o775)

    with pytest.raises(ClusterStateUnknown, match="no provider gave a whole list"):
        runner(rows, wanted).gather()


def test_the_balancer_acts_only_on_the_host_of_the_qmaster(
    wanted: BalancerRunOptions, rows: BalancerStateRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The qmaster may move to another host with a balancer; two acting balancers would add nodes twice."""
    monkeypatch.setattr(local_host_facts, "is_this_host", lambda _: False)

    assert runner(rows, wanted).gather()
    with pytest.raises(ClusterStateUnknown, match="the qmaster runs on master, and not on "):
        runner(rows, wanted, is_acting=True).gather()


def test_a_round_started_by_root_runs_as_the_account_of_the_balancer(
    wanted: BalancerRunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_root = Mock()
    monkeypatch.setattr(balancer_daemon, "drop_root_to_account", leave_root)
    monkeypatch.setattr(balancer_daemon, "BalancerDaemon", Mock(side_effect=ClusterStateUnknown("enough")))

    with pytest.raises(ClusterStateUnknown):
        balancer_daemon.run_one_balancer_round(wanted)

    leave_root.assert_called_once_with(BALANCE_ACCOUNT)


def test_hosts_of_a_provider_without_configured_hosts_are_released(
    wanted: BalancerRunOptions, rows: BalancerStateRows, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows.nodes.replace_all_nodes((rack_node("alpha-n8", OFF), rack_node("alpha-n9", ElasticNodeState.BOOTING)))
    round_ = runner(rows, wanted, policy=policy_of(tmp_path, RACK))
    plan = round_.decide(round_.gather())

    assert "event=left_off node=alpha-n8 command=\"qmod -e '*@alpha-n8'\"" in caplog.text
    assert "event=no_provider" not in caplog.text
    assert "open alpha-n9" in plan.acts_in_words


def test_a_silent_host_with_its_own_section_is_never_reported_as_lost(
    wanted: BalancerRunOptions,
    rows: BalancerStateRows,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = ("alpha-n7.cluster", "alpha-n8.cluster")
    seen = situation(instance(MASTER), *(instance(name, state="au") for name in names))
    monkeypatch.setattr(balance_situation_sources, "observe_balanced_cluster", lambda *_: seen)
    (tmp_path / "secret").chmod(0o600)
    policy = policy_of(tmp_path, RACK + powered_hosts(names[0]))
    pools = {"usual": policy.pools["usual"]}
    rows.store_silence_start_times({f"{name.partition('.')[0]} ": NOON - timedelta(days=1) for name in names})
    runner(rows, wanted, policy=replace(policy, pools=pools)).gather()

    assert re.findall(r"event=no_machine host=(\S+)", caplog.text) == ["alpha-n8"]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_pool_must_not_be_named_as_a_power_provider(wanted: BalancerRunOptions, tmp_path: Path, enabled: str) -> None:
    own = f"{RACK}{powered_hosts('alpha-n1')}[squeeze]\nenabled = {enabled}\n"
    policy = policy_of(tmp_path, f'{own}[pool.rack]\nprovider = "works"\n')

    with pytest.raises(ConfigError, match=r"\[pool\.rack\] has the name of a provider of hosts"):
        balancer_daemon.require_balancer_can_act(replace(wanted, policy=policy, rules=policy.balance))


def test_without_any_provider_the_remaining_nodes_are_reported(
    wanted: BalancerRunOptions, rows: BalancerStateRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sections of pools, providers and hosts were removed at once."""
    monkeypatch.setattr(balancer_daemon, "BALANCE_STATE", str(tmp_path / "state.db"))
    made = BalancerOwnedNode(name="alpha-n9", pool="usual", machine="m-1", since=NOON, state=ElasticNodeState.READY)
    rows.nodes.replace_all_nodes((rack_node("alpha-n7", ElasticNodeState.READY), rack_node("alpha-n8", OFF), made))
    bare = f"{SITE.partition('[provider')[0]}[balance]\nmax_nodes = 9\n"
    policy = configuration_file.parse_configuration("FILE", bare.encode())

    with pytest.raises(ConfigError) as found:
        balancer_daemon.require_balancer_can_act(replace(wanted, policy=policy, rules=policy.balance))
    _, *left = found.value.problems

    assert [
        "alpha-n8: standby, and no round manages the node; `qmod -e '*@alpha-n8'` opens the host once the host is on",
        "alpha-n9: ready, and no round manages the node;"
        " the node is removed when [pool.usual] and its provider are configured again",
    ] == left


def test_the_watchdog_limit_allows_for_the_slowest_possible_round(wanted: BalancerRunOptions, tmp_path: Path) -> None:
    """The limit counts a round's machine lists, and the node steps in batches of 16 nodes.

    The steps of a node are three provider calls and the ssh steps, each at its timeout.
    """
    works = {"works": wanted.policy.providers["works"]}
    policy = replace(wanted.policy, providers=works)
    slow = replace(
        wanted,
        policy=replace(policy, bootstrap=replace(policy.bootstrap, steps="names execd")),
        rules=replace(policy.balance, max_nodes=17),
    )
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(name)
        environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "300000000"}
        life_sign = ServiceHeartbeat(f"{tmp_path}/lock", environment)
        with BalancerDaemon(slow, Clock(), life_sign).open_cycle():
            during = systemd.recv(4096).decode().split("\n")
        life_sign.send_heartbeat()
        after = systemd.recv(4096).decode().split("\n")

    provider_s = policy.providers["works"].timeout_s
    longest_s = 600 + provider_s + 2 * (3 * provider_s + 2 * policy.bootstrap.timeout_s)
    assert {"WATCHDOG=1", f"WATCHDOG_USEC={longest_s * 1e6:.0f}"} <= set(during)
    assert {"READY=1", "WATCHDOG_USEC=300000000"} <= set(after)


def test_the_watchdog_limit_adds_up_the_calls_of_a_libcloud_driver(wanted: BalancerRunOptions) -> None:
    policy = wanted.policy
    section = replace(policy.providers["works"], kind=ProviderKind.LIBCLOUD, driver="dummy")
    slow = replace(
        wanted, policy=replace(policy, providers={"cloud": section}), rules=replace(policy.balance, max_nodes=17)
    )

    steps_s = 2 * len(policy.bootstrap.steps.split()) * policy.bootstrap.timeout_s
    expected = 600 + section.timeout_s + 17 * 3 * section.timeout_s + steps_s
    assert balancer_daemon.balancer_watchdog_limit_s(slow) == expected


@pytest.fixture
def acting(
    wanted: BalancerRunOptions, rows: BalancerStateRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[ElasticNodeState], PublishedBalancerRoundRunner]:
    """Return a function that makes an acting runner; its only node has a machine and the given state."""
    monkeypatch.setattr(balancer_daemon, "BALANCE_PUBLISHED", str(tmp_path / "published"))
    monkeypatch.setattr(balancer_daemon, "BALANCE_ENDS", str(tmp_path / "ends.json"))
    (tmp_path / "list").write_text(json.dumps([MACHINE]))

    def make(state: ElasticNodeState) -> PublishedBalancerRoundRunner:
        rows.nodes.replace_all_nodes(
            [BalancerOwnedNode(name="alpha-n1", pool="usual", state=state, since=NOON, machine="m-1")]
        )
        return runner(rows, wanted, is_acting=True)

    return make


def test_the_published_figures_count_joined_nodes_and_not_requests(
    acting: Callable[..., PublishedBalancerRoundRunner], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_ = acting(ElasticNodeState.JOINING)
    membership = Mock(join_host_to_cluster=Mock(return_value=HostJoinStep.JOINED))
    monkeypatch.setattr(round_, "_acts", replace(round_._acts, membership=membership))

    plan = run_cycle_once(round_, str)
    round_.publish_round_results()

    found = published(tmp_path)
    assert 7 == plan.plan.add
    assert (PublishedPoolNodeCounters(pool="usual", added=1),) == found.pools
    assert 0.5 == found.cost_hour


def test_a_round_writes_its_statistics_row_before_plotting(
    wanted: BalancerRunOptions, rows: BalancerStateRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancer_daemon, "BALANCE_ENDS", str(tmp_path / "ends.json"))
    note = Mock(wraps=balancer_daemon.balancer_statistics_and_publication.record_balancer_statistics)
    monkeypatch.setattr(balancer_daemon.balancer_statistics_and_publication, "record_balancer_statistics", note)
    stats, there = tmp_path / "own.csv", list[bool]()

    options = {"lookback": timedelta(minutes=7), "stats": str(stats), "after": lambda: there.append(stats.exists())}
    round_ = runner(rows, wanted, **options)
    run_cycle_once(round_, str)
    round_.publish_round_results()

    assert timedelta(minutes=7) == note.call_args.args[-1].lookback
    assert (1, [True]) == (len(stats.read_text().splitlines()), there)


def test_only_an_acting_balancer_publishes_a_round_without_a_readable_cell(
    wanted: BalancerRunOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancer_daemon, "BALANCE_PUBLISHED", str(tmp_path / "published"))
    monkeypatch.setattr(balancer_daemon, "BALANCE_STATE", str(tmp_path / "state.db"))
    for is_acting in (True, False):
        daemon = BalancerDaemon(replace(wanted, is_acting=is_acting), Clock())
        with pytest.raises(ClusterStateUnknown), daemon.open_cycle():
            raise ClusterStateUnknown("no answer")

    found = published(tmp_path)
    assert (1, 1) == (found.blind_rounds, found.rounds)


def test_a_failed_node_costs_its_price_while_its_machine_exists(
    acting: Callable[..., PublishedBalancerRoundRunner], tmp_path: Path
) -> None:
    round_ = acting(ElasticNodeState.FAILED)

    run_cycle_once(round_, str)
    round_.publish_round_results()

    assert 0.5 == published(tmp_path).cost_hour


def test_kill_master_requires_a_machine_with_the_master_tag(
    wanted: BalancerRunOptions, rows: BalancerStateRows, tmp_path: Path
) -> None:
    """If a machine list is missing, the tag cannot be checked and the round continues."""
    kills = replace(wanted, kills_master=True)
    one_list = replace(wanted.policy, pools={"usual": wanted.policy.pools["usual"]})
    with pytest.raises(ConfigError, match="gridbridge-master = alpha: --kill-master needs exactly"):
        runner(rows, kills, policy=one_list).gather()

    assert runner(rows, kills).gather()
    (tmp_path / "list").write_text(json.dumps([{**MACHINE, "tags": {"gridbridge-master": "alpha"}}]))
    assert runner(rows, kills, policy=one_list).gather()


def test_a_dry_run_decides_and_stores_nothing(wanted: BalancerRunOptions, rows: BalancerStateRows) -> None:
    plan = run_cycle_once(runner(rows, wanted), str)

    assert (5, (), None) == (plan.plan.add, rows.nodes.load_all_nodes(), rows.last_round_time())


def test_every_round_is_reported_after_its_end(wanted: BalancerRunOptions, rows: BalancerStateRows) -> None:
    told = list[BalancerRoundPlan]()
    round_ = runner(rows, wanted, tell=told.append)
    plan = run_cycle_once(round_, str)
    round_.publish_round_results()

    assert told == [plan]


HOUR = timedelta(hours=1)
DAYS_AHEAD = timedelta(days=2)
NODE = BalancerOwnedNode(
    name="alpha-n3",
    pool="usual",
    state=ElasticNodeState.BOOTING,
    since=NOON - HOUR,
    machine="m-3",
    up_since=NOON - 2 * HOUR,
    idle_since=NOON - HOUR / 2,
)
RECORD = PoolFailureRecord(failures=2, failed_at=NOON - HOUR, no_capacity_at=NOON - 2 * HOUR)
SEEN = WaitingJobsHistory(at=NOON - HOUR, tasks=3, room_since=NOON - 2 * HOUR, stuck_since=None)


@pytest.fixture
def memory(rows: BalancerStateRows) -> BalancerStateRows:
    rows.shift_times_to_clock(clocks(NOON, 0.0))
    rows.nodes.replace_all_nodes([NODE])
    rows.store_pool_failure_records({"usual": RECORD})
    rows.store_machine_missing_times({"alpha-n3 m-3": NOON})
    rows.store_silence_start_times({"alpha-n3 m-3": NOON - HOUR})
    rows.store_job_eligible_times({17: NOON - HOUR})
    rows.store_waiting_job_histories({17: SEEN})
    rows.store_round_time_and_cost(NOON, NOON - HOUR, 12.5)
    return rows


def clocks(wall: datetime, steady_s: float, boot: str = "b") -> HostClockReadings:
    return HostClockReadings(boot=boot, wall=wall, steady_s=steady_s)


@pytest.mark.parametrize("by", [DAYS_AHEAD, -5 * HOUR], ids=["ahead", "back"])
def test_all_stored_times_are_shifted_with_the_clock(memory: BalancerStateRows, by: timedelta) -> None:
    after = NOON + timedelta(minutes=1) + by
    told = memory.shift_times_to_clock(clocks(after, 60.0))

    assert by == told
    assert (
        replace(NODE, since=NOON - HOUR + by, up_since=NOON - 2 * HOUR + by, idle_since=NOON - HOUR / 2 + by),
    ) == memory.nodes.load_all_nodes()
    assert {
        "usual": replace(RECORD, failed_at=NOON - HOUR + by, no_capacity_at=NOON - 2 * HOUR + by)
    } == memory.pool_failure_records()
    assert {"alpha-n3 m-3": NOON + by} == memory.machine_missing_times()
    assert {"alpha-n3 m-3": NOON - HOUR + by} == memory.silence_start_times()
    assert {17: NOON - HOUR + by} == memory.job_eligible_times([17], after)
    assert {17: replace(SEEN, at=NOON - HOUR + by, room_since=NOON - 2 * HOUR + by)} == memory.job_histories(after)
    assert (NOON + by, NOON - HOUR + by) == (memory.last_round_time(), memory.last_node_change_time())
    assert 12.5 == memory.month_cost(NOON)


def test_stored_times_are_restored_when_the_clock_is_set_right_again(memory: BalancerStateRows) -> None:
    memory.shift_times_to_clock(clocks(NOON + timedelta(minutes=1) + DAYS_AHEAD, 60.0))
    memory.shift_times_to_clock(clocks(NOON + timedelta(minutes=2), 120.0))

    assert (NODE,) == memory.nodes.load_all_nodes()
    assert NOON == memory.last_round_time()


@pytest.mark.parametrize(
    "after",
    [
        clocks(NOON + DAYS_AHEAD, DAYS_AHEAD.total_seconds()),
        clocks(NOON + timedelta(seconds=90), 60.0),
        clocks(NOON + DAYS_AHEAD, 60.0, boot="c"),
        clocks(NOON + DAYS_AHEAD, 60.0, boot=""),
    ],
    ids=["time passed", "a little", "the machine was started", "nobody knows"],
)
def test_stored_times_stay_without_a_known_clock_step(memory: BalancerStateRows, after: HostClockReadings) -> None:
    told = memory.shift_times_to_clock(after)

    assert timedelta() == told
    assert (NODE,) == memory.nodes.load_all_nodes()


def test_a_time_that_cannot_be_shifted_is_unchanged() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert last == clock_step_correction.shift_time_by_clock_step(last, HOUR)


def test_an_acting_round_follows_the_clock_and_logs_the_step(
    wanted: BalancerRunOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A dry run stores nothing, and so shifts nothing."""
    monkeypatch.setattr(balancer_daemon, "BALANCE_STATE", str(tmp_path / "state.db"))
    monkeypatch.setattr(balancer_daemon, "BALANCE_PUBLISHED", str(tmp_path))
    ahead = NOON + DAYS_AHEAD
    for wall, is_acting in ((NOON, True), (ahead, False), (ahead, True), (ahead, True)):
        clock = Clock(wall.timestamp, lambda: 0.0)
        with (
            caplog.at_level(logging.WARNING, balancer_daemon.__name__),
            BalancerDaemon(replace(wanted, is_acting=is_acting), clock).open_cycle(),
        ):
            pass

    assert ["event=clock_moved by_s=172800"] == [one.getMessage() for one in caplog.records]


RELOADED = f"""{ALPHA}
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
    return RELOADED.format(most=most, apply=apply)


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
