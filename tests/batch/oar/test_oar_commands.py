"""Tests of the command lines of OAR's programs."""

import subprocess
from pathlib import Path

import pytest

from gridbridge.batch.oar import oar_commands
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.transfer_route import OarServerAccess

SERVER = OarServerAccess(timeout_s=15)
NAME = "gb.alpha.12.0.1"
TWO_GROUPS = "/nodes=2/resource_id=4+/nodes=1/resource_id=1"
TWO_GROUPS_WITH_GPUS = "/nodes=2/gpu=2/resource_id=2+/nodes=1/gpu=2/resource_id=1"


def request(*hard: tuple[str, str], **more: str) -> JobRequest:
    return JobRequest(hard=(*hard, *more.items()))


def spec(request: JobRequest) -> JobSpec:
    return JobSpec(transfer=NAME, request=request)


def test_a_job_is_submitted_held_under_the_transfers_name() -> None:
    argv = oar_commands.submit_held_job_argv(SERVER, spec(request()), 1234)

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
    assert oar_commands.oarsub_resource_option(asked, slots) == expected


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
    assert oar_commands.oarsub_property_condition(asked) == expected
    assert oar_commands.explain_request_refusal(asked) == ""


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (JobRequest(project="foreign", targets="besteffort"), ("-q", "besteffort", "--project", "foreign")),
        (JobRequest(types=("besteffort", "timesharing=user,*")), ("-t", "besteffort", "-t", "timesharing=user,*")),
    ],
)
def test_queue_project_and_each_type_are_options(asked: JobRequest, options: Argv) -> None:
    assert oar_commands.oarsub_argv(SERVER, spec(asked))[-5:-1] == options


def test_a_server_with_a_listener_gets_option_notify() -> None:
    listening = OarServerAccess(timeout_s=15, ends="/tmp/gridbridge.gb/ends")
    argv = oar_commands.submit_held_job_argv(listening, spec(request()), 1234)

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
    assert oar_commands.explain_request_refusal(asked) == f"OAR has no {reason}"


def test_each_oar_program_has_an_alarm_before_the_time_limit() -> None:
    argv = oar_commands.show_job_argv(SERVER, "12")

    assert argv[:2] == ("/usr/bin/perl", "-e")
    assert argv[3:] == ("14", "/usr/bin/oarstat", "-f", "-J", "-j", "12")


@pytest.mark.parametrize(("text", "expected"), [("it's", "'it\\'s'"), ("a\\", "'a\\\\'"), ("$x", "'$x'")])
def test_a_text_is_quoted_for_perl(text: str, expected: str) -> None:
    assert oar_commands.quote_for_perl(text) == expected


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

    done = subprocess.run([f"/bin/{shell}", "-c", oar_commands.TASK_COMMAND], env=env, check=False)

    assert done.returncode == status
