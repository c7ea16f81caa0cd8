"""Tests of the command lines of OAR's programs, and of the SQL conditions of queries, run on SQLite tables."""

import shlex
import sqlite3
import subprocess
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest

from gridbridge.batch.oar import oar_command_line_builders, oar_server_query_commands
from gridbridge.batch.oar.oar_command_line_builders import Argv
from gridbridge.batch.oar.oar_demand_reader import parse_oar_cell
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.transfer_route import OarServerAccessSettings
from tests.batch.oar.test_oar_demand import TWO, document
from tests.batch.oar.test_oar_output import shown

SERVER = OarServerAccessSettings(timeout_s=15)
NAME = "gb.alpha.12.0.1"
TWO_GROUPS = "/nodes=2/resource_id=4+/nodes=1/resource_id=1"
TWO_GROUPS_WITH_GPUS = "/nodes=2/gpu=2/resource_id=2+/nodes=1/gpu=2/resource_id=1"


def request(*hard: tuple[str, str], **more: str) -> JobRequest:
    return JobRequest(hard=(*hard, *more.items()))


def spec(request: JobRequest) -> JobSpec:
    return JobSpec(transfer=NAME, request=request)


def test_a_job_is_submitted_held_under_the_transfers_name() -> None:
    argv = oar_command_line_builders.submit_held_job_argv(SERVER, spec(request()), 1234)

    assert argv[3:8] == ("sh", "submit", "1234", "/usr/bin/oarstat", "")
    assert argv[argv.index("/usr/bin/oarsub") :] == (
        *("/usr/bin/oarsub", "--hold", "--name", NAME),
        *("-d", "/", "-O", "/dev/null", "-E", "/dev/null", "-l", "/nodes=1/resource_id=1"),
        'exec /usr/bin/perl "$HOME/.gridbridge/job.$OAR_JOB_ID"',
    )


@pytest.mark.parametrize(
    ("asked", "slots", "expected"),
    [
        (request(h_rt="3600"), 1, "/nodes=1/resource_id=1,walltime=1:0:0"),
        (request(h_rt="0:10:5"), 4, "/nodes=1/resource_id=4,walltime=0:10:5"),
        (request(h_rt="100:00:00"), 1, "/nodes=1/resource_id=1,walltime=100:0:0"),
        (request(h_rt=":90:"), 1, "/nodes=1/resource_id=1,walltime=1:30:0"),
        (request(h_rt="0"), 1, "/nodes=1/resource_id=1,walltime=0:0:1"),
        (request(h_rt="INFINITY"), 1, "/nodes=1/resource_id=1"),
        (request(("/gpu", "2")), 1, "/nodes=1/gpu=2/resource_id=1"),
        (request(("/gpu", "2")), 5, "/nodes=1/gpu=2/resource_id=3"),
        (JobRequest(groups=((2, 4),)), 9, "/nodes=2/resource_id=4"),
        (JobRequest(groups=((0, 9),)), 9, "/resource_id=9"),
        (request(h_rt="60").with_changes(groups=((2, 4), (1, 1))), 9, f"{TWO_GROUPS},walltime=0:1:0"),
        (request(("/gpu", "2")).with_changes(groups=((2, 4), (1, 1))), 9, TWO_GROUPS_WITH_GPUS),
    ],
)
def test_slots_groups_levels_and_h_rt_become_the_resource_option(asked: JobRequest, slots: int, expected: str) -> None:
    """The program oarsub(1) reads a walltime of `3600` as hours."""
    assert oar_command_line_builders.oarsub_resource_option(asked, slots) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request(arch="x", owner="it's", h_rt="60", hostname="n1", remote="true"), "arch = 'x' AND owner = 'it''s'"),
        (request(("mem>=", "4096"), ("/gpu", "2")), "mem >= '4096'"),
        (request(("mem<", "1")), "mem < '1'"),
        (request(("arch=", "x' OR 'a'='a")), "arch = 'x'' OR ''a''=''a'"),
        (
            JobRequest(hard=(("c", "3"),), either=((("a", "1"), ("b<>", "it's")),)),
            "c = '3' AND (a = '1' OR b <> 'it''s')",
        ),
        (request(("a~", "n%"), ("b<>~", "x_")), "a LIKE 'n%' AND b NOT LIKE 'x_'"),
        (request(("c==", ""), ("d<>==", "")), "c IS NULL AND d IS NOT NULL"),
    ],
)
def test_other_resources_become_quoted_sql_conditions(asked: JobRequest, expected: str) -> None:
    assert oar_command_line_builders.oarsub_property_condition(asked) == expected
    assert oar_command_line_builders.explain_request_refusal(asked) == ""


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (JobRequest(project="foreign", targets="besteffort"), ("-q", "besteffort", "--project", "foreign")),
        (JobRequest(types=("besteffort", "timesharing=user,*")), ("-t", "besteffort", "-t", "timesharing=user,*")),
    ],
)
def test_queue_project_and_each_type_are_options(asked: JobRequest, options: Argv) -> None:
    assert oar_command_line_builders.oarsub_argv(SERVER, spec(asked))[-5:-1] == options


def test_a_server_with_a_listener_gets_option_notify() -> None:
    listening = OarServerAccessSettings(timeout_s=15, ends="/tmp/gridbridge.gb/ends")
    argv = oar_command_line_builders.submit_held_job_argv(listening, spec(request()), 1234)

    assert argv[7] == "/tmp/gridbridge.gb/ends"
    assert argv[-2] == "--notify=exec:.gridbridge/ended"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        *[(request(("/gpu", value)), f"/gpu={value}") for value in ("0", "1/nodes=9")],
        *[(request((name, "1")), name) for name in ("/", ">=", "1 OR 1")],
        *[(request(h_rt=limit), f"h_rt={limit}") for limit in ("1:2:3:4", "1,walltime=9")],
        *[(request(arch=value), f"arch={value}") for value in ("a\\' OR 1=1 -- ", "a\nb")],
        (JobRequest(either=((("a", "1"), ("1 OR 1", "x")),)), "1 OR 1"),
        (JobRequest(either=((("a", "x\\"), ("b", "y")),)), "a=x\\"),
        (JobRequest(targets="a,b"), "choice of queues (-q a,b)"),
    ],
)
def test_a_request_that_could_inject_options_or_sql_is_refused(asked: JobRequest, reason: str) -> None:
    assert oar_command_line_builders.explain_request_refusal(asked) == f"OAR has no {reason}"


def test_each_oar_program_has_an_alarm_before_the_time_limit() -> None:
    argv = oar_command_line_builders.show_job_argv(SERVER, "12")

    assert argv[:2] == ("/usr/bin/perl", "-e")
    assert argv[3:] == ("14", "/usr/bin/oarstat", "-f", "-J", "-j", "12")


@pytest.mark.parametrize(("text", "expected"), [("it's", "'it\\'s'"), ("a\\", "'a\\\\'"), ("$x", "'$x'")])
def test_a_text_is_quoted_for_perl(text: str, expected: str) -> None:
    assert oar_command_line_builders.quote_for_perl(text) == expected


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize(("is_there", "status"), [(True, 3), (False, -57)])
def test_a_task_without_script_on_its_node_ends_by_a_signal(
    tmp_path: Path, shell: str, is_there: bool, status: int
) -> None:
    """The node may not have mounted the home; perl's exit status would look like the task's."""
    if is_there:
        (tmp_path / ".gridbridge").mkdir()
        (tmp_path / ".gridbridge/array.7").write_text("exit 3;")
    env = {"HOME": str(tmp_path), "OAR_ARRAY_ID": "7"}

    done = subprocess.run([f"/bin/{shell}", "-c", oar_command_line_builders.TASK_COMMAND], env=env, check=False)

    assert done.returncode == status


COLUMNS = "job_id, array_id, job_user, job_name, state, queue_name, resubmit_job_id, reservation"


class Oar:
    def __init__(self) -> None:
        self._tables = sqlite3.connect(":memory:")
        self._tables.execute(f"CREATE TABLE jobs ({COLUMNS})")
        self._tables.execute("CREATE TABLE frag_jobs (frag_id_job)")
        self._ids = count(1)

    def submit(
        self,
        tasks: int = 1,
        state: str = "Waiting",
        user: str = "bob",
        *,
        name: str = "",
        queue: str = "default",
        copy_of: int = 0,
        reservation: str = "None",
        deleted: bool = False,
    ) -> int:
        ids = [next(self._ids) for _ in range(tasks)]
        rows = [(each, ids[0], user, name, state, queue, copy_of, reservation) for each in ids]
        self._tables.executemany(f"INSERT INTO jobs VALUES ({', '.join('?' * 8)})", rows)
        if deleted:
            self._tables.executemany("INSERT INTO frag_jobs VALUES (?)", [(each,) for each in ids])
        return ids[0]

    def shown(self, argv: tuple[str, ...]) -> list[list[int]]:
        """Return the job ids that each oarstat of a command line would print."""
        words = shlex.split(argv[-1])
        return [self._ids_of(condition) for word, condition in pairwise(words) if word == "--sql"]

    def _ids_of(self, condition: str) -> list[int]:
        return [row[0] for row in self._tables.execute(f"SELECT job_id FROM jobs WHERE {condition}")]


@pytest.fixture
def oar() -> Iterator[Oar]:
    database = Oar()
    yield database
    database._tables.close()


def test_the_status_query_lists_own_jobs_in_full_and_other_jobs_in_lines(oar: Oar) -> None:
    ours, runs = oar.submit(user="alice"), oar.submit(state="Running", user="alice")
    dying = oar.submit(user="alice", deleted=True)
    orphan = oar.submit(state="Hold", user="alice", name="gb.alpha.1.0.1")
    copy = oar.submit(state="Waiting", user="alice", name="gb.alpha.2.0.1", copy_of=runs)
    campaign = oar.submit(3, user="alice", name="gc.alpha.1.1")
    others = oar.submit(2)
    oar.submit(state="Hold")
    oar.submit(state="Terminated", name="gb.alpha.3.0.1", copy_of=runs)
    oar.submit(queue="besteffort")
    yields = oar.submit(state="Running", queue="besteffort")
    wanted = {ours, runs, dying, campaign}

    waiting, whole, lines = oar.shown(oar_server_query_commands.oar_status_query_argv(SERVER, wanted, {campaign}))

    assert waiting == [ours, campaign, campaign + 1, campaign + 2]
    assert whole == [runs, dying, orphan, copy]
    assert lines == [ours, copy, others, others + 1, yields]


@pytest.mark.parametrize("name", ["", "gb.alpha.9.0.1", "gc.alpha.9.1"])
@pytest.mark.parametrize("state", ["Hold", "Running", "Waiting"])
def test_other_users_jobs_do_not_enlarge_the_full_listing(oar: Oar, name: str, state: str) -> None:
    """Job names can be forged."""
    ours = oar.submit(user="alice")
    oar.submit(500, state, name=name)
    waiting, whole, lines = oar.shown(oar_server_query_commands.oar_status_query_argv(SERVER, {ours}, ()))
    oar.submit(4500, state, name=name)
    later = oar.shown(oar_server_query_commands.oar_status_query_argv(SERVER, {ours}, ()))

    assert later[:2] == [waiting, whole]
    assert later[2] == lines or state == "Waiting"


def test_the_number_of_lines_is_limited(oar: Oar) -> None:
    oar.submit(oar_server_query_commands.MOST_LINES * 2)

    *_, lines = oar.shown(oar_server_query_commands.oar_status_query_argv(SERVER, (), ()))
    *_, rows = oar.shown(oar_server_query_commands.oar_demand_query_argv(SERVER))

    assert len(lines) == len(rows) == oar_server_query_commands.MOST_LINES


def test_one_users_job_names_do_not_hide_another_users_orphan(oar: Oar) -> None:
    oar.submit(1000, "Hold", name="gb.x")
    orphan = oar.submit(state="Hold", user="alice", name="gb.alpha.1.0.1")

    _, whole, _ = oar.shown(oar_server_query_commands.oar_status_query_argv(SERVER, (), ()))

    assert orphan in whole
    assert len(whole) == oar_server_query_commands.MOST_OF_ONE + 1


def test_the_demand_query_lists_one_job_of_each_request_in_full(oar: Oar) -> None:
    for _ in range(oar_server_query_commands.MOST_REQUESTS + 100):
        oar.submit()
    array, runs = oar.submit(600, user="alice"), oar.submit(state="Running")
    booked = oar.submit(reservation="Scheduled")

    whole, lines = oar.shown(oar_server_query_commands.oar_demand_query_argv(SERVER))

    assert {array, runs, booked} <= set(whole)
    assert len(whole) <= oar_server_query_commands.MOST_REQUESTS + 2
    assert array + 599 in lines
    assert oar.shown(oar_server_query_commands.oar_busy_nodes_query_argv(SERVER)) == [[runs, booked]]


def test_the_demand_query_limits_the_lines_of_held_jobs(oar: Oar) -> None:
    waits = oar.submit(user="alice")
    for _ in range(30):
        oar.submit(200, "Hold")
    later = oar.submit(3, user="alice")

    whole, lines = oar.shown(oar_server_query_commands.oar_demand_query_argv(SERVER))

    assert whole == [waits, later]
    assert len(lines) == oar_server_query_commands.MOST_HELD + 4
    assert {waits, later, later + 2} <= set(lines)


def _task(job: int, letter: str) -> str:
    place = f"{job:<9} {20:<9} {job - 19:<9} {'solve':10} {'al_gamma':8}"
    return f"{place} 2026-11-28 18:00:00 {letter} {'default':8}"


@pytest.mark.parametrize("is_held_job_known", [True, False])
def test_array_tasks_are_counted_by_their_lines(is_held_job_known: bool) -> None:
    """Held tasks count as held even if no held job is listed in full."""
    jobs = [(20, "Waiting"), (22, "Hold")][: 1 + is_held_job_known]
    shown_jobs = [shown(Job_Id=job, array_id=20, state=state, assigned_resources=[]) for job, state in jobs]
    lines = [_task(20, "W"), _task(21, "W"), _task(22, "H"), _task(23, "H"), _task(24, "H")]
    cell, _ = parse_oar_cell(document(TWO, *shown_jobs, lines=lines), "all.q")

    waiting, held = ((20, 21), 2, True), ((22, 23, 24), 3, False)
    assert [(one.jobs, one.tasks, one.can_start) for one in cell.waiting] == [waiting, held]
