"""What is asked of Grid Engine's clients, word for word: nothing is re-read, nothing is lost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.batch.gridengine import commands
from gridbridge.batch.gridengine.request import Request
from gridbridge.errors import ParseError
from gridbridge.model.route import Cell

CELL = Cell(root="/r", cell="beta", qmaster_port="1", execd_port="2", binaries="/b", timeout_s=1)
GOLDEN = Path(__file__).parent.parent / "golden" / "gridengine-8.1.9"
PLAIN = (GOLDEN / "job-hostile.xml").read_bytes()


def request(**values: object) -> Request:
    """Return a request that asked for nothing but these."""
    plain = Request(PLAIN)
    for name, value in values.items():
        setattr(plain, name, value)
    return plain


def submit(asked: Request, parallel: str = "", shell: str = "/bin/sh") -> tuple[str, ...]:
    return commands.submit_held(CELL, "gb.alpha.1.0.1", asked, shell, "/home/a b", parallel)


def test_a_plain_job_is_held_nameless_silent_and_never_rerun() -> None:
    assert submit(request()) == (
        *("/b/qsub", "-clear", "-C", "", "-terse", "-h", "-N", "gb.alpha.1.0.1"),
        *("-A", "gb.alpha.1.0.1", "-S", "/bin/sh", "-m", "n", "-r", "n", "-j", "y"),
        *("-o", "/dev/null", "-wd", "/home/a b"),
    )


def test_the_cluster_s_own_shell_runs_the_wrapper() -> None:
    words = submit(request(), shell="/bin/dash")

    assert words[words.index("-S") + 1] == "/bin/dash"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(notify=True), ("-notify",)),
        (request(project="p"), ("-P", "p")),
        (request(checkpoint="c"), ("-ckpt", "c")),
        (request(priority=-100), ("-p", "-100")),
        (request(priority=100), ()),
        (request(share=5), ("-js", "5")),
        (request(context=(("a", "1"), ("b", ""))), ("-ac", "a=1", "-ac", "b=")),
        (
            request(hard=(("h_rt", "60"), ("arch", ""))),
            ("-hard", "-l", "h_rt=60", "-hard", "-l", "arch"),
        ),
        (request(soft=(("arch", "x"),)), ("-soft", "-l", "arch=x")),
        (request(stays=True), ("-hard", "-l", "remote=false")),
        (
            request(
                hard=(("remote", "true"), ("hostname", "n1"), ("qname", "q"), ("gb_beta_free", "1"))
            ),
            (),
        ),
    ],
    ids=[
        *("notify", "project", "ckpt", "low", "high", "share", "context", "hard", "soft"),
        *("stays", "home"),
    ],
)
def test_a_request_is_passed_on_or_dropped(asked: Request, words: tuple[str, ...]) -> None:
    assert submit(asked) == (*submit(request()), *words)


def test_the_granted_slots_are_asked_for_not_the_range() -> None:
    assert submit(request(), "mpi 3")[-2:] == ("mpi", "3")


@given(
    name=st.text(st.characters(codec="ascii", min_codepoint=33, exclude_characters="=,")),
    value=st.text(st.characters(exclude_characters="\0")),
)
def test_a_value_is_one_word_whatever_it_holds(name: str, value: str) -> None:
    """No shell ever sees the command line, so nothing is quoted and nothing can break out."""
    words = submit(request(context=((name, value),)))

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
def test_what_would_take_back_that_a_job_is_only_verified_is_refused(
    words: tuple[str, ...],
) -> None:
    """`-clear` kills the options before it: qsub would submit the job (qsub(1))."""
    with pytest.raises(ParseError, match=r"^-(clear|@): not with -verify"):
        commands.verify(CELL, words)


@pytest.mark.parametrize("words", [commands.status(CELL), commands.own_status(CELL)])
def test_a_default_file_of_qstat_hides_no_job(words: tuple[str, ...]) -> None:
    """`-s r` in the site's or the caller's sge_qstat would make waiting jobs look gone."""
    assert words[1:3] == ("-s", "a")


def test_a_start_time_is_put_far_ahead_and_given_back_with_its_note() -> None:
    """In UTC, and the note goes and comes in the same request."""
    far = ("/b/qalter", "-a", "203501010000.00", "-ac", "gridbridge_start=1767225600", "7")
    back = ("/b/qalter", "-a", "202601010000.00", "-dc", "gridbridge_start", "7")

    assert commands.defer(CELL, "7", "1767225600") == far
    assert commands.undefer(CELL, "7", 1767225600) == back
    assert commands.undefer(CELL, "7", 0)[2] == "197001020000.00"


def test_a_jobs_own_queues_are_known_while_it_is_pinned() -> None:
    pinned = request(context=(("gridbridge_queues", "all.q short.q"),), queues="transfer-beta")

    assert commands.own_queues(pinned) == "all.q,short.q"
    assert commands.own_queues(request(context=(), queues="all.q")) == "all.q"
