"""The poller's qalter and qstat calls for guards at a Grid Engine home."""

import re
from pathlib import Path

import pytest

from gridbridge.batch.gridengine.job_submission_and_control import query_job_accounts
from gridbridge.errors import ConfigError, ParseError
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import TransferAction, TransferActKind
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.transfer.local_task_acts import LocalTaskActs
from tests.builders.programs import write_program
from tests.decisions.transfer.test_transfer_policy import a_transfer

SEVERAL = (Path(__file__).parents[1] / "golden" / "gridengine-8.1.9" / "job-several.xml").read_bytes()
ALTERED, DEFERRED = map(int, re.findall(rb"<JB_job_number>(\d+)", SEVERAL))
GONE = 99999
OURS = b"<JB_execution_time>2051222400</JB_execution_time>"
OWN = b"<JB_execution_time>1767225600</JB_execution_time>"
NOTE = re.compile(rb"<JB_context>.*</JB_context>", re.DOTALL)
FAR = "UTC -a 203501010000.00"
NOTED = f"-ac gridbridge_job={DEFERRED} {DEFERRED}"


def act(guard: str = HomeStartGuard.NONE) -> TransferAction:
    one = a_transfer(name=f"gb.alpha.{DEFERRED}.2.1", guard=guard)
    return TransferAction(act=TransferActKind.RELEASE_LOCAL, transfer=one, why="")


class Clients:
    """A home whose clients print a captured job, and record their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("qstat", "qalter"):
            write_program(folder / name, f'#!/bin/sh\necho "${{TZ-}} $*" >>{folder}/{name}.asked\n')
        with (folder / "qstat").open("a") as file:
            file.write(f"cat {folder}/job.xml\n")
        self.show(SEVERAL)
        cluster = ClusterSection(qmaster_port=1, execd_port=2, binaries=str(folder))
        policy = Policy(site=SiteSection(cluster="alpha"), clusters={"alpha": cluster}, queues={})
        self.home = LocalTaskActs(policy)

    def show(self, xml: bytes) -> None:
        (self.folder / "job.xml").write_bytes(xml)

    def asked(self, name: str = "qalter") -> list[str]:
        """Return the arguments of a client's calls, with the time zone."""
        path = self.folder / f"{name}.asked"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def clients(tmp_path: Path) -> Clients:
    return Clients(tmp_path)


def test_a_query_of_several_jobs_leaves_out_unlisted_jobs(clients: Clients) -> None:
    kept = clients.home.query_local_job_requests((ALTERED, GONE, DEFERRED))

    facts = {
        job: (request.owner, request.hard, request.owner_requested_queues, request.is_deferred)
        for job, request in kept.items()
    }
    assert facts == {ALTERED: ("alice", (("arch", "none"),), "", False), DEFERRED: ("alice", (), "", True)}
    assert clients.asked("qstat") == [f" -j {ALTERED},{GONE},{DEFERRED} -xml"]


@pytest.mark.parametrize(
    ("guard", "removed", "restored"),
    [
        (HomeStartGuard.NONE, [], []),
        (HomeStartGuard.HOLD, [f" -h U {DEFERRED}.2"], [f" -ac gridbridge_hold=1 {DEFERRED}", f" -h u {DEFERRED}.2"]),
        (
            HomeStartGuard.START,
            [f"UTC -a 202601010000.00 -dc gridbridge_start,gridbridge_job {DEFERRED}"],
            [f"{FAR} -ac gridbridge_start=1767225600 {NOTED}"],
        ),
    ],
)
def test_each_guard_is_removed_and_restored_with_a_note_by_its_own_qalter_calls(
    clients: Clients, guard: str, removed: list[str], restored: list[str]
) -> None:
    clients.show(_one(DEFERRED))

    clients.home.remove_task_start_guard(act(guard))
    first = clients.asked()
    clients.home.set_task_start_guard(act(guard))

    assert (first, clients.asked()[len(first) :]) == (removed, restored)


@pytest.mark.parametrize(
    ("start", "is_noted", "asked"),
    [
        (OURS, True, "202601010000.00"),
        (OURS, False, "197001020000.00"),
        (OWN, True, "202601010000.00"),
        (OWN, False, ""),
    ],
    ids=["its own was noted", "it had none", "somebody has given it this one", "it was not ours"],
)
def test_removing_a_guard_restores_the_start_time_of_the_job_owner(
    clients: Clients, start: bytes, is_noted: bool, asked: str
) -> None:
    job = _one(DEFERRED).replace(OURS, start)
    clients.show(job if is_noted else NOTE.sub(b"", job))

    clients.home.remove_task_start_guard(act(HomeStartGuard.START))

    expected = [f"UTC -a {asked} -dc gridbridge_start,gridbridge_job {DEFERRED}"] if asked else []
    assert clients.asked() == expected


@pytest.mark.parametrize("own", ["x", "-1", "1e9", "99999999999", "²", "4294967296"])
def test_an_invalid_noted_start_time_lets_the_job_start_at_once(
    clients: Clients, own: str, caplog: pytest.LogCaptureFixture
) -> None:
    clients.show(_one(DEFERRED).replace(b"1767225600", own.encode()))

    clients.home.remove_task_start_guard(act(HomeStartGuard.START))
    clients.home.set_task_start_guard(act(HomeStartGuard.START))

    assert clients.asked() == [
        f"UTC -a 197001020000.00 -dc gridbridge_start,gridbridge_job {DEFERRED}",
        f"{FAR} -ac gridbridge_start=0 {NOTED}",
    ]
    (line,) = caplog.messages
    why = "'the stored value is no start time: the job may start at once'"
    assert f"job={DEFERRED}.2 gridbridge_start={own!a} why={why}" in line


def test_a_job_whose_noted_queues_are_unknown_may_start_in_any_queue(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    job = _one(DEFERRED).replace(b"gridbridge_start", b"gridbridge_queues")
    clients.show(job.replace(b"1767225600", b"nosuch"))
    with (clients.folder / "qalter").open("a") as file:
        file.write("case $2 in nosuch) echo 'job requests unknown queue \"nosuch\"'; exit 1;; esac\n")

    clients.home.restore_requested_queues(act())

    assert clients.asked()[-1] == f" -q * -dc gridbridge_queues {DEFERRED}"
    assert len(clients.asked()) == 2
    assert "gridbridge_queues='nosuch'" in caplog.text


def test_a_start_time_set_by_a_person_is_noted_before_the_guard(clients: Clients) -> None:
    clients.show(_one(DEFERRED).replace(OURS, b"<JB_execution_time>1798761600</JB_execution_time>"))

    clients.home.set_task_start_guard(act(HomeStartGuard.START))

    assert clients.asked() == [f"{FAR} -ac gridbridge_start=1798761600 {NOTED}"]


@pytest.mark.parametrize(("note", "original"), [(b"7", 7), (b"", 0), (b"x", 0), (b"9" * 12, 0), ("\u00b2".encode(), 0)])
def test_an_invalid_job_number_in_the_guard_note_counts_as_0(clients: Clients, note: bytes, original: int) -> None:
    pair = b"<VA_variable>gridbridge_job</VA_variable><VA_value>%s</VA_value></JB_context>" % note
    clients.show(_one(DEFERRED).replace(b"</JB_context>", pair))

    assert clients.home.query_local_job_requests((DEFERRED,))[DEFERRED].job_number_if_deferred == original


def test_one_query_lists_all_jobs_that_wait_for_their_start_time_or_fails(clients: Clients) -> None:
    clients.show(b"<JB_job_number>5</JB_job_number>\n</job_info>\n")
    assert clients.home.query_deferred_jobs() == {5}
    assert clients.asked("qstat") == [" -s ha -u * -xml"]

    clients.show(b"<JB_job_number>5</JB_job_number>\n")
    with pytest.raises(ParseError):
        clients.home.query_deferred_jobs()


def test_one_query_returns_the_accounts_of_several_jobs(clients: Clients) -> None:
    ports = {"qmaster_port": "1", "execd_port": "2"}
    cell = GridEngineCellAccessSettings(root="/r", cell="beta", binaries=str(clients.folder), timeout_s=10, **ports)

    told = query_job_accounts(cell, (ALTERED, GONE, DEFERRED))

    assert told == {ALTERED: "gb.alpha.9.0.1", DEFERRED: "sge"}
    assert clients.asked("qstat") == [f" -j {ALTERED},{GONE},{DEFERRED} -xml"]


def _one(job: int) -> bytes:
    number = b"<JB_job_number>%d<" % job
    return number + SEVERAL.partition(number)[2]


@pytest.mark.parametrize("clusters", [{"alpha": ClusterSection(kind=ClusterKind.OAR)}, {}], ids=["OAR", "none"])
def test_local_acts_need_a_grid_engine_home(clusters: dict[str, ClusterSection]) -> None:
    tasks = LocalTaskActs(Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={}))
    for act in (lambda: tasks.query_local_job_requests((7,)), lambda: tasks.remove_guard_copied_by_qresub(7)):
        with pytest.raises(ConfigError, match="needs a Grid Engine home"):
            act()
