"""The poller applies a changed gridbridge.toml, and recovers from a failed round."""

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MethodType, SimpleNamespace
from unittest.mock import Mock

import pytest

from gridbridge.errors import StateError
from gridbridge.model.published_status_and_reports import PublishedClusterBreaker
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, JobEndPushKind, Policy
from gridbridge.model.transfer.transfer_config_sections import BreakerSection, PollerSection, TransferQueueSection
from gridbridge.model.transfer.transfer_queue_load_values import queue_closing_load_values
from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind, TransferOutcome
from gridbridge.program import service_cycle
from gridbridge.program.cluster_observer import ClusterObserver
from gridbridge.program.pushed_job_end_receivers import QeventJobEndReceiver
from gridbridge.shell.clock import Clock
from gridbridge.state import published_json
from gridbridge.state.published_file_formats import load_values_path, parse_load_values_file, read_published_route
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller import poller_daemon
from gridbridge.transfer.poller.poller_daemon import PollerDaemon, build_transfer_service, reload_transfer_service
from tests.transfer.poller.messages import RECORD
from tests.transfer.poller.test_transfer_round import Machine, Told

OTHER = RECORD.with_changes(transfer="gb.alpha.8.0.1", remote_id="41", wake="f1")
AGES_AGO_S = -1e6
EXPANDED = (dict, list, tuple, set, frozenset, deque, MethodType, partial)


class Asked(Told):
    def __init__(self, policy: PollerSection) -> None:
        super().__init__()
        self.policy = policy
        self.transfer_queues: tuple[str, ...] = ()
        self.is_dismissed = False

    def use_changed_configuration(self, _: object, policy: PollerSection, transfer_queues: tuple[str, ...]) -> None:
        self.policy, self.transfer_queues = policy, transfer_queues

    def shut_down_threads(self) -> None:
        self.is_dismissed = True


class Pushed(QeventJobEndReceiver):
    def __init__(self) -> None:
        self.is_stopped = False

    def take_ended_job_ids(self) -> frozenset[int]:
        return frozenset()

    def stop_receiving_job_ends(self) -> None:
        self.is_stopped = True


class Running(Machine):
    """A poller with answers of both clusters, so that its queue to beta is open."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        poller = self.policy.poller
        self.alpha, self.beta = Asked(poller), Asked(poller)
        self.service.resources.observers.update({"alpha": self.alpha, "beta": self.beta})
        self.push = Pushed()
        self.service.resources.pushes["beta"] = self.push
        self.answer("r")

    def follow(self, **changes: object) -> None:
        """Reload a changed configuration, and replace each new observer by one that queries nothing."""
        self.policy = replace(self.policy, **changes)  # type: ignore[arg-type]  # as the test says
        reload_transfer_service(self.service, self.policy)
        for name, observer in self.service.resources.observers.items():
            if isinstance(observer, ClusterObserver):
                observer.shut_down_threads()
                self.service.resources.observers[name] = Told()

    def load(self) -> dict[str, str]:
        """Return the load values after another round."""
        self.service.run_poller_round()
        return parse_load_values_file(load_values_path(f"{self.folder}/published"))[2]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    machine = Running(tmp_path)
    yield machine
    machine.service.shut_down()


def with_gamma(policy: Policy) -> dict[str, object]:
    there = {"gamma": ClusterSection(qmaster_port=1, execd_port=2)}
    queue = {"transfer-gamma": TransferQueueSection(cluster="gamma", pending_limit=1, slots=1)}
    return {"clusters": {**policy.clusters, **there}, "queues": {**policy.queues, **queue}}


def of_beta(policy: Policy, **changes: object) -> dict[str, object]:
    beta = replace(policy.clusters["beta"], **changes)  # type: ignore[arg-type]  # as the test says
    return {"clusters": {**policy.clusters, "beta": beta}}


def test_a_new_transfer_queue_opens_at_the_first_answer_and_closes_no_other_queue(running: Running) -> None:
    before = running.load()
    running.follow(**with_gamma(running.policy))
    after = running.load()

    assert before["gb_beta_up"] == "1"
    assert after == {**before, **queue_closing_load_values(["gb_gamma_up", "gb_gamma_pending", "gb_gamma_free"])}
    assert (running.service.resources.observers["beta"], running.beta.is_dismissed) == (running.beta, False)
    assert running.alpha.transfer_queues == ("transfer-beta", "transfer-gamma")
    assert read_published_route("transfer-gamma", f"{running.folder}/published").remote == "gamma"


@pytest.mark.parametrize(
    ("changes", "is_open", "is_dismissed", "is_stopped"),
    [
        ({"accounting": "/file"}, True, False, False),
        ({"shell": "/bin/dash"}, True, False, False),
        ({"spool_shared": True}, True, False, False),
        ({"push_limit_per_s": 9.0}, True, False, True),
        ({"root": "/elsewhere"}, False, True, True),
    ],
    ids=lambda changes: next(iter(changes), "") if isinstance(changes, dict) else "",
)
def test_a_changed_cluster_restarts_only_the_queries_that_the_change_affects(
    running: Running, changes: dict[str, object], *, is_open: bool, is_dismissed: bool, is_stopped: bool
) -> None:
    """A cluster with a new root is queried before its queue opens."""
    open_values = running.load()
    running.follow(**of_beta(running.policy, **changes))

    closed = queue_closing_load_values(["gb_beta_up", "gb_beta_pending", "gb_beta_free"])
    assert running.load() == (open_values if is_open else closed)
    assert (running.beta.is_dismissed, running.push.is_stopped) == (is_dismissed, is_stopped)
    assert ("beta" in running.service.resources.pushes) is not is_stopped


def test_a_removed_cluster_is_neither_queried_nor_published(running: Running) -> None:
    folder = f"{running.folder}/published"
    running.send(RECORD)
    before = published_json.read_all_published_files(folder).clusters.keys()
    running.follow(queues={}, clusters={"alpha": running.policy.clusters["alpha"]})

    assert (running.beta.is_dismissed, running.load()) == (True, {})
    assert "beta" not in running.service.answers.good
    assert running.service.situations.unconfigured_clusters() == {"beta"}
    assert before - published_json.read_all_published_files(folder).clusters.keys() == {"beta"}


@pytest.mark.parametrize("is_other_away", [False, True], ids=["alone", "with another"])
def test_a_record_by_a_removed_route_is_accepted_and_its_cluster_is_queried(
    running: Running, is_other_away: bool
) -> None:
    """A starter reads its route a moment before the starter sends its record."""
    if is_other_away:
        running.send(OTHER)
    running.follow(queues={})
    running.send(RECORD)
    was_unasked = running.service.has_unqueried_cluster()
    running.follow()

    assert RECORD.transfer in {one.name for one in running.service.ledger.open_transfers()}
    assert was_unasked is not is_other_away
    assert "beta" in running.service.resources.observers
    assert not running.service.has_unqueried_cluster()


def test_time_without_queries_does_not_count_as_silence_of_a_cluster(running: Running) -> None:
    running.send(RECORD)
    running.service.situations.since_s = AGES_AGO_S
    running.follow(**with_gamma(running.policy))
    kept = running.service.situations.since_s
    clusters = running.policy.clusters
    running.follow(clusters={"alpha": clusters["alpha"]}, queues={})
    before_s = running.service.resources.clock.steady_s()
    running.follow(clusters=clusters)

    assert kept == AGES_AGO_S
    assert running.service.situations.since_s >= before_s


def test_a_shorter_longest_pause_shortens_the_pause_of_closed_queues(running: Running) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    running.service.breakers._store_breaker(PublishedClusterBreaker(cluster="beta", times=9, until=until))
    running.follow(breaker=BreakerSection(pause_s=5, pause_max_s=5))
    latest = datetime.now(UTC) + timedelta(seconds=5)

    [known] = running.service.resources.views.read_published_breakers()
    assert known.until is not None
    assert known.until <= latest


def test_messages_that_wait_for_a_record_survive_a_configuration_change(running: Running) -> None:
    early = RECORD.with_changes(kind=TransferMessageKind.ENDED, outcome=TransferOutcome.EXIT, exit_status="0")
    running.send(early)
    before = dict(running.service.mail.premature)
    running.follow(poller=PollerSection(spool_files_per_uid=7))

    assert len(before) == 1
    assert running.service.mail.premature == before
    assert running.service.resources.inbox.limit_per_uid == 7


def test_a_new_route_applies_to_the_next_message(running: Running) -> None:
    to_gamma = RECORD.with_changes(queue="transfer-gamma", remote="gamma")
    running.send(to_gamma)
    refused = len(running.service.ledger.open_transfers())
    running.follow(**with_gamma(running.policy))
    running.send(to_gamma)

    assert (refused, len(running.service.ledger.open_transfers())) == (0, 1)


def test_no_part_of_the_poller_keeps_the_old_configuration(running: Running) -> None:
    running.send(RECORD, TransferMessage(kind=TransferMessageKind.ASK, transfer=RECORD.transfer, wake="f2"))
    old = running.policy
    running.follow(**with_gamma(old), poller=PollerSection(interval_s=9), site=replace(old.site, min_uid=7))

    assert not any(
        found is one for found in reachable(running.service) for one in (old, old.poller, old.site, old.queues)
    )


def reachable(root: object) -> Iterator[object]:
    """Yield all objects of the project that an object refers to."""
    left, known = [root], {id(root)}
    while left:
        one = left.pop()
        yield one
        if isinstance(one, EXPANDED) or type(one).__module__.startswith(("gridbridge.", "tests.")):
            new = [each for each in gc.get_referents(one) if id(each) not in known]
            known |= set(map(id, new))
            left += [each for each in new if not isinstance(each, type)]


def test_the_published_service_status_shows_new_queues_and_the_first_start(running: Running) -> None:
    folder = f"{running.folder}/published"
    before = published_json.read_published_service_status(folder)
    running.follow(**with_gamma(running.policy))
    after = published_json.read_published_service_status(folder)

    assert before.started_at == after.started_at
    assert [route.queue for route in after.routes] == ["transfer-beta", "transfer-gamma"]


def test_a_failed_construction_of_the_poller_releases_all_resources(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Pushed] = []
    closed: list[StateFile] = []

    def push(*_: object) -> Pushed:
        if begun:
            raise StateError("no FIFO")
        begun.append(Pushed())
        return begun[0]

    clusters = {name: replace(cluster, push=JobEndPushKind.QEVENT) for name, cluster in running.policy.clusters.items()}
    site = replace(running.policy.site, state=f"sqlite:///{running.folder}/state.db")
    policy = replace(running.policy, clusters=clusters, site=site)
    monkeypatch.setattr(poller_daemon, "QeventJobEndReceiver", push)
    monkeypatch.setattr(StateFile, "close", lambda self: closed.append(self))
    configuration = Mock(policy=policy)
    with pytest.raises(StateError, match="no FIFO"):
        build_transfer_service(configuration, Clock())

    assert [each.is_stopped for each in begun] == [True]
    assert len(closed) == 1


@pytest.mark.parametrize("home", [{"alpha": ClusterSection(kind=ClusterKind.OAR)}, {}], ids=["OAR", ""])
def test_a_site_without_grid_engine_home_queries_every_cluster(home: dict[str, ClusterSection]) -> None:
    """Campaigns send jobs to the clusters of such a site."""
    clusters = {**home, "beta": ClusterSection(qmaster_port=1, execd_port=2)}
    policy = Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={})

    assert poller_daemon._clusters_to_query(policy, ()) == clusters.keys()
    assert policy.remote_cluster_names == frozenset()


def test_a_failed_poller_is_rebuilt_with_the_long_watchdog_time_of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    life_sign = SimpleNamespace(announce_long_step=lambda: done.append("begin"), send_heartbeat=lambda: None)
    signals = SimpleNamespace(is_stopped=False, wait_for_signal=lambda _: True, has_sighup_come=lambda: False)

    @contextmanager
    def open_round_transaction() -> object:  # type: ignore[misc]  # it never gives anything
        done.append("round")
        signals.is_stopped = done.count("round") > 1
        raise StateError("full")
        yield

    def build(*_: object) -> object:
        done.append("build")
        if done.count("build") == 2:
            raise StateError("still full")
        return SimpleNamespace(
            shut_down=lambda: done.append("end"),
            ledger=SimpleNamespace(away_jobs=None),
            open_round_transaction=open_round_transaction,
        )

    monkeypatch.setattr(poller_daemon, "build_transfer_service", build)
    monkeypatch.setattr(poller_daemon.service_cycle, "set_log_level", lambda _: None)
    configuration = SimpleNamespace(reload_if_changed=lambda *_: False, save_for_next_run=lambda: None, policy=None)

    poller = PollerDaemon(configuration, signals, Clock())  # type: ignore[arg-type]  # what it needs of them
    service_cycle.run_cycles_forever(poller, signals, life_sign, Clock())  # type: ignore[arg-type]  # what it needs of them

    anew = ["end", "begin", "build"]
    assert done == ["build", "round", *anew, *anew, "round", "end"]
