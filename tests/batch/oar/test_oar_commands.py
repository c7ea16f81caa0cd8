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


def request(**hard: str) -> JobRequest:
    """Return a request for hard resources."""
    return JobRequest(hard=tuple(hard.items()))


def request_of(*hard: tuple[str, str]) -> JobRequest:
    return JobRequest(hard=hard)


def spec(request: JobRequest) -> JobSpec:
    return JobSpec(transfer=NAME, request=request)


def program(argv: Argv, name: str) -> Argv:
    """Return the command line of an OAR program inside another command line."""
    return argv[argv.index(f"/usr/bin/{name}") :]


def test_a_job_is_submitted_held_under_the_transfers_name() -> None:
    argv = oar_commands.submit_held_job_command(SERVER, spec(request()), 1234)

    assert argv[3:8] == ("sh", "submit", "1234", "/usr/bin/oarstat", "")
    assert program(argv, "oarsub") == (
        *("/usr/bin/oarsub", "--hold", "--name", NAME),
        *("-d", "/", "-O", "/dev/null", "-E", "/dev/null", "-l", "/nodes=1/resource_id=1"),
        'exec /usr/bin/perl "$HOME/.gridbridge/job.$OAR_JOB_ID"',
    )


@pytest.mark.parametrize(
    ("slots", "limit", "expected"),
    [
        (1, "3600", "/nodes=1/resource_id=1,walltime=1:0:0"),
        (4, "0:10:5", "/nodes=1/resource_id=4,walltime=0:10:5"),
        (1, "100:00:00", "/nodes=1/resource_id=1,walltime=100:0:0"),
        (1, ":90:", "/nodes=1/resource_id=1,walltime=1:30:0"),
        (1, "0", "/nodes=1/resource_id=1,walltime=0:0:1"),
    ],
)
def test_h_rt_becomes_the_walltime_in_hours_minutes_and_seconds(slots: int, limit: str, expected: str) -> None:
    """oarsub(1) reads a walltime of `3600` as hours."""
    assert oar_commands.oarsub_resource_option(request(h_rt=limit), slots) == expected


def test_other_resources_become_sql_conditions_except_home_resources() -> None:
    asked = request(arch="lx-amd64", owner="it's", h_rt="60", hostname="alpha-n1", remote="true")

    assert oar_commands.oarsub_property_condition(asked) == "arch = 'lx-amd64' AND owner = 'it''s'"


def test_a_resource_name_that_is_no_property_is_refused() -> None:
    """The name would become SQL."""
    assert oar_commands.explain_request_refusal(request(arch="x")) == ""
    assert "1 OR 1" in oar_commands.explain_request_refusal(request(**{"1 OR 1": "1"}))


def test_project_and_queue_are_requested_if_the_job_has_them() -> None:
    asked = JobRequest(project="foreign", targets="besteffort")
    words = oar_commands.oarsub_command(SERVER, spec(asked))

    assert words[words.index("-q") :][:4] == ("-q", "besteffort", "--project", "foreign")


def test_a_server_with_a_listener_gets_option_notify() -> None:
    listening = OarServerAccess(timeout_s=15, ends="/tmp/gridbridge.gb/ends")
    argv = oar_commands.submit_held_job_command(listening, spec(request()), 1234)

    assert argv[7] == "/tmp/gridbridge.gb/ends"
    assert argv[-2] == "--notify=exec:.gridbridge/ended"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mem>=", "4096", "mem >= '4096'"),
        ("mem<", "1", "mem < '1'"),
        ("arch=", "x86_64", "arch = 'x86_64'"),
        ("arch=", "x' OR 'a'='a", "arch = 'x'' OR ''a''=''a'"),
    ],
)
def test_a_property_is_compared_by_its_relation(name: str, value: str, expected: str) -> None:
    assert oar_commands.oarsub_property_condition(request_of((name, value))) == expected


def test_alternative_properties_are_joined_by_or() -> None:
    asked = JobRequest(hard=(("c", "3"),), either=((("a", "1"), ("b<>", "it's")),))

    assert oar_commands.oarsub_property_condition(asked) == "c = '3' AND (a = '1' OR b <> 'it''s')"
    assert oar_commands.explain_request_refusal(asked) == ""
    assert "1 OR 1" in oar_commands.explain_request_refusal(JobRequest(either=((("a", "1"), ("1 OR 1", "x")),)))
    assert oar_commands.explain_request_refusal(JobRequest(either=((("a", "x\\"), ("b", "y")),)))


@pytest.mark.parametrize(
    ("slots", "expected"), [(1, "/nodes=1/gpu=2/resource_id=1"), (5, "/nodes=1/gpu=2/resource_id=3")]
)
def test_slots_are_divided_among_the_units_of_a_level(slots: int, expected: str) -> None:
    asked = request_of(("/gpu", "2"))

    assert (oar_commands.oarsub_resource_option(asked, slots), oar_commands.oarsub_property_condition(asked)) == (
        expected,
        "",
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (((2, 4),), "/nodes=2/resource_id=4,walltime=0:1:0"),
        (((0, 9),), "/resource_id=9,walltime=0:1:0"),
        (((2, 4), (1, 1)), "/nodes=2/resource_id=4+/nodes=1/resource_id=1,walltime=0:1:0"),
    ],
)
def test_slot_groups_become_oarsub_groups(groups: tuple[tuple[int, int], ...], expected: str) -> None:
    asked = request(h_rt="60").but(groups=groups)

    assert oar_commands.oarsub_resource_option(asked, 9) == expected


def test_each_slot_group_requests_the_level() -> None:
    asked = JobRequest(hard=(("/gpu", "2"),), groups=((2, 4), (1, 1)))

    assert oar_commands.oarsub_resource_option(asked, 9) == (
        "/nodes=2/gpu=2/resource_id=2+/nodes=1/gpu=2/resource_id=1"
    )


def test_each_job_type_is_a_separate_option() -> None:
    asked = JobRequest(types=("besteffort", "timesharing=user,*"))
    words = oar_commands.oarsub_command(SERVER, spec(asked))

    assert words[-5:-1] == ("-t", "besteffort", "-t", "timesharing=user,*")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("/gpu", "0"),
        ("/gpu", "1/nodes=9"),
        ("/", "1"),
        (">=", "1"),
        ("h_rt", "1:2:3:4"),
        ("h_rt", "1,walltime=9"),
        ("arch", "a\\' OR 1=1 -- "),
        ("arch", "a\nb"),
    ],
)
def test_a_value_that_could_inject_options_or_sql_is_refused(name: str, value: str) -> None:
    assert oar_commands.explain_request_refusal(request_of((name, value)))


def test_several_queues_are_refused() -> None:
    assert oar_commands.explain_request_refusal(JobRequest(targets="a,b")) == "OAR has no -q a,b (only one queue)"


def test_an_infinite_time_limit_sets_no_walltime() -> None:
    assert oar_commands.oarsub_resource_option(request(h_rt="INFINITY"), 1) == "/nodes=1/resource_id=1"


def test_each_oar_program_has_an_alarm_before_the_time_limit() -> None:
    argv = oar_commands.show_job_command(SERVER, "12")

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


def test_relations_become_sql_operators() -> None:
    asked = JobRequest(hard=(("a~", "n%"), ("b<>~", "x_"), ("c==", ""), ("d<>==", ""), ("e<>", "1")))

    condition = "a LIKE 'n%' AND b NOT LIKE 'x_' AND c IS NULL AND d IS NOT NULL AND e <> '1'"
    assert (oar_commands.oarsub_property_condition(asked), oar_commands.explain_request_refusal(asked)) == (
        condition,
        "",
    )
