"""Tests of the command lines of Grid Engine's client programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.gridengine import home_job_runnability_check, sge_command_line_builders
from gridbridge.batch.gridengine.job_request_parser import parse_job_request, parse_slot_ranges
from gridbridge.errors import ParseError
from gridbridge.model.job_request import JobRequest, JobSpec, Pairs
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from tests.builders.golden import CAPTURED

CELL = GridEngineCellAccessSettings(
    root="/r", cell="beta", qmaster_port="1", execd_port="2", binaries="/b", timeout_s=1
)
BEST_EFFORT = ("-hard", "-l", "gb_besteffort=true")
SPEC = JobSpec(transfer="gb.alpha.1.0.1", request=JobRequest(), cwd="/home/a b")
YIELDING = SPEC.with_changes(request=JobRequest(types=("besteffort",), stays=True))


def submit(asked: JobRequest) -> tuple[str, ...]:
    return sge_command_line_builders.submit_held_job_argv(CELL, SPEC.with_changes(request=asked))


def test_a_plain_job_is_submitted_held_without_output_mail_and_rerun() -> None:
    assert submit(JobRequest()) == (
        *("/b/qsub", "-clear", "-C", "", "-terse", "-h", "-N", "gb.alpha.1.0.1"),
        *("-A", "gb.alpha.1.0.1", "-S", "/bin/sh", "-m", "n", "-r", "n", "-j", "y"),
        *("-o", "/dev/null", "-wd", "/home/a b"),
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (JobRequest(notify=True), ("-notify",)),
        (JobRequest(project="p"), ("-P", "p")),
        (JobRequest(checkpoint="c"), ("-ckpt", "c")),
        (JobRequest(priority=-100), ("-p", "-100")),
        (JobRequest(priority=100), ()),
        (JobRequest(share=5), ("-js", "5")),
        (JobRequest(context=(("a", "1"), ("b", ""))), ("-ac", "a=1", "-ac", "b=")),
        (JobRequest(hard=(("h_rt", "60"), ("arch", ""))), ("-hard", "-l", "h_rt=60", "-hard", "-l", "arch")),
        (JobRequest(soft=(("arch", "x"),)), ("-soft", "-l", "arch=x")),
        (JobRequest(stays=True), ("-hard", "-l", "remote=false")),
        (JobRequest(hard=(("remote", "true"), ("hostname", "n1"), ("qname", "q"), ("gb_beta_free", "1"))), ()),
        (JobRequest(types=("besteffort",), stays=True), (*BEST_EFFORT, "-p", "-1023")),
    ],
    ids=[
        *("notify", "project", "ckpt", "low", "high", "share", "context", "hard", "soft"),
        *("stays", "home", "best-effort"),
    ],
)
def test_each_part_of_a_request_becomes_qsub_options(asked: JobRequest, words: tuple[str, ...]) -> None:
    assert submit(asked) == (*submit(JobRequest()), *words)


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        (SPEC.with_changes(shell="/bin/dash"), ("-S", "/bin/dash")),
        (SPEC.with_changes(pe="mpi", slots=3), ("-pe", "mpi", "3")),
        (SPEC.with_changes(slots=3), ("-pe", "*", "3")),
        (sge_command_line_builders.replace_preemptible_by_lowest_priority(YIELDING), ("-hard", "-l", "remote=false")),
    ],
    ids=["shell", "granted slots", "no environment", "no best-effort queue"],
)
def test_a_job_is_submitted_with_its_shell_and_slots(spec: JobSpec, options: tuple[str, ...]) -> None:
    """A preemptible job in a cell without best-effort queues is kept out of transfer queues like an ordinary job."""
    words = sge_command_line_builders.submit_held_job_argv(CELL, spec)

    assert options in [words[at : at + len(options)] for at in range(len(words))]
    assert "-pe" not in sge_command_line_builders.submit_held_job_argv(CELL, SPEC)


@given(
    name=st.text(st.characters(codec="ascii", min_codepoint=33, exclude_characters="=,")),
    value=st.text(st.characters(exclude_characters="\0")),
)
def test_a_context_value_is_one_argument_whatever_its_characters(name: str, value: str) -> None:
    words = submit(JobRequest(context=((name, value),)))

    assert words[-2:] == ("-ac", f"{name}={value}")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("-clear", "job.sh"), id="first"),
        pytest.param(("-N", "x", "-clear", "job.sh"), id="later"),
        pytest.param(("-@", "options", "job.sh"), id="perhaps in a file"),
        pytest.param(("job.sh", "-clear"), id="maybe the script's"),
    ],
)
def test_options_that_cancel_verify_are_refused(words: tuple[str, ...]) -> None:
    """`-clear` cancels the preceding options, so that qsub would submit the job (qsub(1))."""
    with pytest.raises(ParseError, match=r"^-(clear|@): not allowed with -verify"):
        sge_command_line_builders.preview_submission_argv(CELL, words)


def test_an_sge_qstat_file_hides_no_job() -> None:
    """Option `-s r` in an sge_qstat file would hide waiting jobs."""
    assert sge_command_line_builders.show_cell_status_argv(CELL)[1:3] == ("-s", "a")


def test_a_start_time_is_deferred_and_restored_in_utc() -> None:
    far = ("/b/qalter", "-a", "203501010000.00", "-ac", "gridbridge_start=1767225600")
    far += ("-ac", "gridbridge_job=7", "7")
    back = ("/b/qalter", "-a", "202601010000.00", "-dc", "gridbridge_start,gridbridge_job", "7")

    assert sge_command_line_builders.defer_restart_argv(CELL, "7", "1767225600") == far
    assert sge_command_line_builders.restore_start_time_argv(CELL, "7", 1767225600) == back
    assert sge_command_line_builders.restore_start_time_argv(CELL, "7", 0)[2] == "197001020000.00"


def test_the_last_request_for_a_resource_name_or_shortcut_counts() -> None:
    """The qmaster would treat the two names as two requests."""
    options = sge_command_line_builders.qsub_resource_options("-soft", (("vf", "1G"), ("virtual_free", "2G")))

    assert options == ("-soft", "-l", "virtual_free=2G")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (JobRequest(hard=(("mem>=", "2G"),)), "accepts only requests NAME=VALUE, not mem>=2G"),
        (JobRequest(either=((("a", "1"), ("a<", "2")),)), "accepts only requests NAME=VALUE, not a<2"),
        (JobRequest(hard=(("a==", ""),)), "accepts only requests NAME=VALUE, not a IS NULL"),
        (JobRequest(hard=(("a~", "x*%"),)), "accepts only requests NAME=VALUE, not a LIKE x*%"),
        (JobRequest(hard=(("mem", "2G"), ("mem", "3G"))), "one value of a resource, not mem=2G and mem=3G"),
        (JobRequest(hard=(("vf", "1G"), ("virtual_free", "2G"))), "not vf=1G and virtual_free=2G"),
        (JobRequest(hard=(("a", "1"), ("a~", "1%"), ("a", "2"))), "not a=1 and a=2"),
        (JobRequest(either=((("a", "1"), ("b", "2")),)), "no choice between resources, such as a=1 or b=2"),
    ],
)
def test_a_request_that_qsub_cannot_express_is_refused(asked: JobRequest, reason: str) -> None:
    assert reason in sge_command_line_builders.explain_request_refusal(asked)


@pytest.mark.parametrize(
    ("hard", "either", "said"),
    [
        ((("gpu<>", "YES"),), (), "gpu=!YES"),
        ((("vf", "1G"), ("virtual_free", "1G")), (), "vf=1G"),
        ((), ((("arch", "lx-*"), ("arch", "sol-*")),), "arch=lx-*|sol-*"),
        ((("a~", "lx-%_"),), (), "a=lx-*?"),
        ((("a<>~", "x%"),), (), "a=!x*"),
        ((("a<>==", ""),), (), "a=*"),
        ((("a<>", "1"), ("a<>", "2")), (), "a=!1&!2"),
        ((("a<>", "1|2"),), (), "a=!(1|2)"),
        ((("a", "lx-*"), ("a", "*64")), (), "a=lx-*&*64"),
        ((("a", "lx-*"), ("a<>", "x")), ((("a", "1"), ("a<>", "2")),), "a=lx-*&!x&(1|!2)"),
    ],
)
def test_conditions_on_one_resource_become_one_expression(hard: Pairs, either: tuple[Pairs, ...], said: str) -> None:
    """The program qsub uses only the last of several requests for a resource."""
    asked = JobRequest(hard=hard, either=either)

    argv = submit(asked)

    assert sge_command_line_builders.explain_request_refusal(asked) == ""
    assert [argv[at + 1] for at, word in enumerate(argv) if word == "-l"] == [said]


PLAIN = (CAPTURED / "job-hostile.xml").read_bytes()
HARD = (("h_rt", "60"), ("remote", "false"))
RANGES = b"""<JB_pe>smp</JB_pe><JB_pe_range>
<ranges><RN_min>2</RN_min><RN_max>4</RN_max><RN_step>1</RN_step></ranges>
<ranges><RN_min>8</RN_min><RN_max>8</RN_max><RN_step>1</RN_step></ranges></JB_pe_range>"""


def test_a_request_is_verified_without_default_options() -> None:
    asked = home_job_runnability_check.replace_resources_and_queues(parse_job_request(PLAIN + RANGES), HARD, "all.q")

    assert home_job_runnability_check.verify_request_command(CELL, asked) == (
        *("/b/qsub", "-clear", "-C", "", "-w", "v", "-pe", "smp", "2-4,8-8", "-q", "all.q"),
        *("-hard", "-l", "h_rt=60", "-hard", "-l", "remote=false"),
    )


def test_a_serial_job_has_no_slot_ranges() -> None:
    assert parse_slot_ranges(PLAIN) == ""


@pytest.mark.parametrize(
    ("hard", "queues", "words"),
    [
        (HARD, None, ("-hard", "-l", "h_rt=60", "-hard", "-l", "remote=false")),
        (None, "!transfer-beta", ("-hard", "-q", "!transfer-beta")),
    ],
    ids=["resources", "queues"],
)
def test_marking_a_refused_job_replaces_only_the_given_list(
    hard: tuple[tuple[str, str], ...] | None, queues: str | None, words: tuple[str, ...]
) -> None:
    argv = home_job_runnability_check.mark_refused_job_command(CELL, "7", hard=hard, queues=queues, reason="no")

    assert argv == ("/b/qalter", *words, "-ac", "gridbridge_refused=no", "7")


def test_a_refusal_reason_is_stored_as_one_context_value() -> None:
    """A comma would begin the next context variable."""
    reason = f"no a,\nb: {'x' * 400}"

    note = home_job_runnability_check.mark_refused_job_command(CELL, "7", hard=HARD, queues=None, reason=reason)[-2]

    assert note == f"gridbridge_refused=no a; b: {'x' * 291}"


@pytest.mark.parametrize(
    ("rest", "words"),
    [((("h_rt", "60"),), ("-hard", "-l", "h_rt=60")), ((), ("-hard", "-l", ""))],
    ids=["others", "none"],
)
def test_a_job_that_requests_home_can_be_pinned_and_unpinned(
    rest: tuple[tuple[str, str], ...], words: tuple[str, ...]
) -> None:
    pinned = sge_command_line_builders.pin_to_queue_argv(CELL, "7", "transfer-beta", "*", rest)
    unpinned = sge_command_line_builders.restore_queue_list_argv(CELL, "7", "*", HARD)

    assert pinned[-6:] == (*words, "-ac", "gridbridge_stays=1", "7")[-6:]
    assert unpinned == (
        *("/b/qalter", "-q", "*", "-dc", "gridbridge_queues", "-hard", "-l", "h_rt=60"),
        *("-hard", "-l", "remote=false", "-dc", "gridbridge_stays", "7"),
    )
