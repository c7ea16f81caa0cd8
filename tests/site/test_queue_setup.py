"""Setup of transfer and best-effort queues: their order and removal, and how check judges existing queues."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gridbridge.config import configuration_file
from gridbridge.decisions.site.service_fault_findings import OLDER_IN_FORCE
from gridbridge.errors import CommandFailed, ConfigError, GridbridgeError, StateError
from gridbridge.model.published_status_and_reports import PublishedClusterAnswer
from gridbridge.model.site.setup_findings_and_edits import (
    BestEffortSetupRequest,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
)
from gridbridge.model.site.site_check_facts import PollerProcessFacts, ServiceConfigurationFacts
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import local_host_facts, safe_files
from gridbridge.shell.clock import Clock
from gridbridge.site import besteffort_setup, setup_edits, transfer_queue_request, transfer_queue_setup
from gridbridge.site.configuration_wait import LIMIT_S, LOOK_S, wait_for_configuration_reload
from gridbridge.site.transfer_queue_request import TransferQueueOptions
from gridbridge.site.transfer_queue_setup import (
    plan_queue_leftover_removal,
    plan_transfer_queue_removal,
    plan_transfer_queue_setup,
)
from gridbridge.state import published_json
from tests.builders.configurations import queue_text, site_text

QCONF = """#!/bin/sh
[ "$SGE_QMASTER_PORT" = 1 ] || { echo "unable to send message to qmaster" >&2; exit 1; }
case "$*" in
-sc) echo "remote remote BOOL == YES NO FALSE 0";;
-sq*) printf '%s\\n' 'qname transfer-beta' 'complex_values remote=TRUE' 'load_thresholds NONE';;
-spl) echo "no parallel environment defined";;
-sel) echo "no execution host defined";;
-so|-sm|-ss|-sh) echo "no such list defined";;
*) echo "load_sensor none";;
esac
"""
QSTAT = """#!/bin/sh
echo '<job_info><queue_info></queue_info><job_info></job_info></job_info>'
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """Return a site whose qconf answers for the home cell only."""
    (tmp_path / "default/common").mkdir(parents=True)
    (tmp_path / "default/common/act_qmaster").write_text("master\n")
    (tmp_path / "qconf").write_text(QCONF)
    (tmp_path / "qconf").chmod(0o755)
    (tmp_path / "qstat").write_text(QSTAT)
    (tmp_path / "qstat").chmod(0o755)
    text = site_text("alpha", "beta", root=str(tmp_path), cell="default", binaries=str(tmp_path))
    path = tmp_path / "gridbridge.toml"
    ports = "[cluster.beta]\nqmaster_port = "
    path.write_text(text.replace(f"{ports}1", f"{ports}3") + queue_text("beta"))
    return configuration_file.load_configuration(str(path))


def test_the_queue_to_a_silent_cluster_is_removed_at_home(policy: Policy) -> None:
    warned: list[str] = []

    steps = plan_transfer_queue_removal(policy, TransferQueueOptions(cluster="beta", short_jobs=True), warned.append)

    cells = {step.edit.cell for step in steps}
    assert steps[0].line == "qconf -dq transfer-beta"
    assert cells == {"alpha", ""}
    assert warned == ["beta was not queried and is not changed: qconf: unable to send message to qmaster"]
    assert plan_queue_leftover_removal(policy, TransferQueueOptions(cluster="beta"))[0].line == steps[0].line


def test_removal_warns_of_a_queue_with_running_jobs(policy: Policy, tmp_path: Path) -> None:
    """Grid Engine deletes no queue with jobs in it (qconf(1))."""
    queue = "".join(
        f"<{name}>{value}</{name}>"
        for name, value in (
            ("name", "transfer-beta@master"),
            ("qtype", "B"),
            ("slots_used", 2),
            ("slots_resv", 0),
            ("slots_total", 9),
        )
    )
    (tmp_path / "qstat").write_text(QSTAT.replace("</queue_info>", f"<Queue-List>{queue}</Queue-List></queue_info>"))
    warned: list[str] = []

    plan_transfer_queue_removal(policy, TransferQueueOptions(cluster="beta", short_jobs=True), warned.append)

    assert warned[1:] == [
        "queue transfer-beta can't be removed yet: jobs use 2 of its slots;"
        " run qmod -d transfer-beta, then wait for the jobs or qdel them"
    ]


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        ("slots 13\nload_thresholds gb_beta_up=false,gb_beta_pending=7", {}, (13, 7)),
        ("slots 2,[HOST=13]\nload_thresholds gb_beta_up=false", {}, (13, 0)),
        ("slots 13\nload_thresholds np_load_avg=1.75", {}, (13, 10)),
        ("slots 0\nload_thresholds gb_gamma_up=false,gb_gamma_pending=7", {}, (25, 10)),
        ("slots 13\nload_thresholds gb_beta_up=false", {"slots": 3, "pending_limit": 4}, (3, 4)),
        ("slots 13\nload_thresholds gb_beta_up=false", {"short_jobs": True}, (10, 0)),
    ],
    ids=["both", "of this host", "foreign limit", "of another cluster", "asked", "short jobs"],
)
def test_a_queue_without_a_section_keeps_its_slots_and_limit(
    policy: Policy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    options: dict[str, Any],
    expected: tuple[int, int],
) -> None:
    """Missing values follow from the remote cluster's size of 100 slots."""
    shown = settings.replace("HOST", local_host_facts.this_host_name()).replace("\n", "' '")
    qconf = QCONF.replace("load_thresholds NONE", shown)
    (tmp_path / "qconf").write_text(qconf)
    monkeypatch.setattr(transfer_queue_request, "count_remote_batch_slots", lambda *_: 100)
    without = replace(policy, queues={})

    wanted = transfer_queue_request.complete_queue_request(without, TransferQueueOptions(cluster="beta", **options))

    assert (wanted.queue, wanted.slots, wanted.pending_limit) == ("transfer-beta", *expected)


def test_setup_of_a_queue_to_a_silent_cluster_is_refused(policy: Policy) -> None:
    with pytest.raises(GridbridgeError, match="unable to send message"):
        plan_transfer_queue_setup(policy, TransferQueueOptions(cluster="beta"))


@pytest.mark.parametrize("home", ['[cluster.alpha]\nkind = "oar"\n', ""], ids=["OAR", "none"])
def test_setup_of_a_queue_without_a_grid_engine_home_is_refused(home: str) -> None:
    ports = "qmaster_port = 1\nexecd_port = 2\n"
    toml = f'[site]\ncluster = "alpha"\n{home}[cluster.beta]\n{ports}'
    policy = configuration_file.parse_configuration("FILE", toml.encode())

    with pytest.raises(ConfigError, match="a transfer queue needs a Grid Engine home"):
        plan_transfer_queue_setup(policy, TransferQueueOptions(cluster="beta"))


OLD = ServiceConfigurationFacts(is_same=False)
NEW = ServiceConfigurationFacts(is_same=True)
REFUSED = ServiceConfigurationFacts(is_same=False, refused=("FILE: wrong",))


class Service(Clock):
    """A service with scripted configuration states, and a clock that only sleep() moves."""

    passed_s = 0.0

    def __init__(self, *seen: ServiceConfigurationFacts | None) -> None:
        super().__init__(steady=lambda: self.passed_s)
        self._seen: Iterator[ServiceConfigurationFacts | None] = chain(seen, repeat(seen[-1]))

    def look(self) -> PollerProcessFacts:
        return PollerProcessFacts(is_running=True, configuration=next(self._seen))

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


@pytest.mark.parametrize(
    ("seen", "after_s", "told"),
    [
        ((OLD, OLD, NEW), 2 * LOOK_S, ""),
        ((OLD, REFUSED), LOOK_S, "FILE: wrong"),
        ((None,), 0, ""),
        ((OLD,), LIMIT_S, OLDER_IN_FORCE),
    ],
    ids=["taken", "refused", "no service", "never taken"],
)
def test_setup_waits_for_the_reload_with_a_time_limit(
    seen: tuple[ServiceConfigurationFacts | None, ...], after_s: float, told: str
) -> None:
    service = Service(*seen)

    trouble = wait_for_configuration_reload(service.look, service)

    assert (told in trouble, bool(told)) == (True, bool(trouble))
    assert service.passed_s == pytest.approx(after_s, abs=LOOK_S)


def an_undo(former: str, attribute: str = "queue_sort_method") -> SharedSettingUndo:
    done = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell="alpha", attribute=attribute, value="seqno")
    back = SetupEdit(verb=SetupEditVerb.SET_SCHEDULER, cell="alpha", attribute=attribute, value=former)
    return SharedSettingUndo(done=done, undo=back)


@pytest.fixture
def notes(tmp_path: Path) -> str:
    return str(tmp_path / "former.json")


@pytest.mark.root
def test_the_first_recorded_former_value_is_kept(notes: str) -> None:
    setup_edits.record_former_settings((an_undo("load"),), notes)
    setup_edits.record_former_settings((an_undo("seqno"), an_undo("0:7:30", "load_adjustment_decay_time")), notes)

    assert [each.undo.value for each in setup_edits.read_former_settings(notes)] == ["load", "0:7:30"]


def test_no_former_settings_are_recorded_at_first(notes: str) -> None:
    setup_edits.delete_former_settings(notes)

    assert setup_edits.read_former_settings(notes) == []


@pytest.mark.root
def test_an_unreadable_record_of_former_settings_is_an_error(notes: str) -> None:
    Path(notes).write_text('[{"done": 1}]')

    with pytest.raises(StateError, match="invalid record of former settings"):
        setup_edits.read_former_settings(notes)


def test_a_failed_setup_edit_reports_standard_error() -> None:
    with pytest.raises(CommandFailed, match="no such thing"):
        setup_edits.run_setup_edit(SetupEdit.shell_command_edit("echo no such thing >&2; exit 3"), None)


SITE = site_text("alpha", "beta", "delta") + queue_text("beta", 9, 4) + queue_text("delta", 9, 4)
KEYS = {"site": 'queue_order = "{order}"', "cluster.beta": "cost = 3", "cluster.delta": "cost = 0.5"}
SWAPPED = {"transfer-beta": "200", "transfer-delta": "100"}


@pytest.fixture
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the home cluster report its queues."""
    there = {"transfer-beta": {"seq_no": "100"}, "transfer-delta": {"seq_no": "200"}}
    home = SimpleNamespace(query_queue_settings=lambda _: there)
    monkeypatch.setattr(transfer_queue_setup, "home_queue_setup_adapter", lambda _: home)


def ordered(order: str) -> Policy:
    text = SITE
    for section, key in KEYS.items():
        text = text.replace(f"[{section}]\n", f"[{section}]\n{key.format(order=order)}\n")
    return configuration_file.parse_configuration("FILE", text.encode())


def heard(folder: Path, cluster: str, free: int, *, seconds: float = 1) -> None:
    """Publish a cluster's free slots out of four, as of some seconds ago."""
    at = datetime.now(UTC) - timedelta(seconds=seconds)
    told = PublishedClusterAnswer(cluster=cluster, asked_at=at, taken_at=at, pending=0, free_slots=free, slots=4)
    (folder / published_json.CLUSTERS).mkdir(exist_ok=True)
    safe_files.replace_file_atomically(
        f"{folder}/{published_json.CLUSTERS}/{cluster}.json", published_json.encode_published_value(told)
    )


def numbers(order: str, folder: Path) -> dict[str, str]:
    """Return the sequence numbers that setup would change."""
    steps = transfer_queue_setup.plan_queue_sequence_numbers(ordered(order), str(folder), f"{folder}/former.json")
    return {one.edit.name: one.edit.value for one in steps}


@pytest.mark.usefixtures("_home")
@pytest.mark.parametrize(
    ("order", "beta", "delta", "expected"),
    [("seq_no", 0, 4, {}), ("wait", 0, 4, SWAPPED), ("wait", 4, 0, {}), ("cost", 4, 0, SWAPPED)],
)
def test_sequence_numbers_follow_the_configured_queue_order(
    tmp_path: Path, order: str, beta: int, delta: int, expected: dict[str, str]
) -> None:
    heard(tmp_path, "beta", beta)
    heard(tmp_path, "delta", delta)

    assert expected == numbers(order, tmp_path)


@pytest.mark.usefixtures("_home")
def test_an_outdated_load_counts_as_no_answer(tmp_path: Path) -> None:
    heard(tmp_path, "beta", 4, seconds=600)
    heard(tmp_path, "delta", 0)

    assert SWAPPED == numbers("wait", tmp_path)


QCONF_OF_FILES = """#!/bin/sh
cd "${0%/*}" || exit 1
case "$*" in
-sc) cat complexes ;;
-sq*) for one in queues/*; do echo "qname ${one#*/}"; cat "$one"; echo; done ;;
-spl) echo "no parallel environment defined" ;;
-srqsl) echo "no resource quota set list defined" ;;
*) exit 1 ;;
esac
"""
QSTAT_OF_ONE_QUEUE = """#!/bin/sh
echo '<job_info><queue_info><Queue-List><name>all.q@n1</name><qtype>BIP</qtype>'
echo '<slots_used>0</slots_used><slots_resv>0</slots_resv><slots_total>2</slots_total>'
echo '<resource name="slots" type="hc">2</resource>'
echo '</Queue-List></queue_info><job_info></job_info></job_info>'
"""
LOCAL = "hostlist n1\nsubordinate_list NONE\ncomplex_values NONE\n"


@pytest.fixture
def mixed_site(tmp_path: Path) -> Policy:
    """Return a site of a local cell with one queue, an OAR server, and a cell reached by ssh."""
    (tmp_path / "queues").mkdir()
    (tmp_path / "queues/all.q").write_text(LOCAL)
    (tmp_path / "complexes").write_text("slots s INT <= YES YES 1 1000\n")
    for name, text in (("qconf", QCONF_OF_FILES), ("qstat", QSTAT_OF_ONE_QUEUE)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    alpha = site_text("alpha", root=str(tmp_path), binaries=str(tmp_path))
    others = '[cluster.gamma]\nkind = "oar"\n[cluster.delta]\nqmaster_port = 1\nexecd_port = 2\nssh = "delta-master"\n'
    return configuration_file.parse_configuration("FILE", f"{alpha}{others}".encode())


def asked(cluster: str = "alpha", like: str | None = None) -> BestEffortSetupRequest:
    return BestEffortSetupRequest(cluster=cluster, like=like)


def test_best_effort_queues_are_modelled_on_the_local_queue(mixed_site: Policy) -> None:
    """A warning names consumables that still keep local jobs waiting."""
    lines = [step.line for step in besteffort_setup.plan_besteffort_setup(mixed_site, asked())]

    assert "qconf -Mc" in lines[0]
    assert ["qconf -sq all.q" in line for line in lines[1:3]] == [True, True]
    assert lines[-1] == "qconf -rattr queue slots 1 gb-be2"
    assert besteffort_setup.plan_besteffort_queue_removal(mixed_site, asked()) == ()
    (told,) = besteffort_setup.besteffort_consumable_warnings(mixed_site, asked())
    assert told.startswith("alpha: consumable slots: best-effort tasks use slots at n1")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (asked("gamma"), "its own best-effort jobs"),
        (asked("delta"), "reached by ssh"),
        (asked("beta"), r"no \[cluster.beta\]"),
        (asked(like="none.q"), "--like none.q: no local queue; expected one of: all.q"),
    ],
    ids=["OAR", "ssh", "unknown", "no such queue"],
)
def test_a_cluster_without_possible_best_effort_queues_is_refused(
    mixed_site: Policy, wanted: BestEffortSetupRequest, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        besteffort_setup.plan_besteffort_setup(mixed_site, wanted)


def test_a_foreign_queue_of_the_same_name_stops_the_setup(mixed_site: Policy, tmp_path: Path) -> None:
    """The check warns about such a queue, too."""
    (tmp_path / "queues/gb-be1").write_text(LOCAL)

    with pytest.raises(GridbridgeError, match=r"gb-be1 has neither.*then qconf -dq gb-be1"):
        besteffort_setup.plan_besteffort_setup(mixed_site, asked())
    (told,) = besteffort_setup.check_grid_engine_besteffort_queues(mixed_site, "alpha")
    assert (told.item, told.state) == ("alpha: queue gb-be1", FindingSeverity.WARNING)


def test_no_best_effort_queues_is_ok_and_a_partial_setup_is_broken(mixed_site: Policy, tmp_path: Path) -> None:
    """Clusters that this host cannot set up get no finding."""
    (none,) = besteffort_setup.check_grid_engine_besteffort_queues(mixed_site, "alpha")
    assert (none.item, none.state) == ("alpha: best-effort queues", FindingSeverity.OK)

    with (tmp_path / "complexes").open("a") as table:
        table.write("gb_besteffort gb_besteffort BOOL == FORCED NO 0 0\n")
    found = {
        each.item: each.state for each in besteffort_setup.check_grid_engine_besteffort_queues(mixed_site, "alpha")
    }
    assert found["queue gb-be1"] is FindingSeverity.BROKEN
    assert found["complex gb_besteffort"] is FindingSeverity.OK
    assert [
        list(besteffort_setup.check_grid_engine_besteffort_queues(mixed_site, name)) for name in ("gamma", "delta")
    ] == [[], []]
