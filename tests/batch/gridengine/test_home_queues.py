"""Tests of the commands that verify a request at home and mark a refused job."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine import client_commands, home_job_runnability_check
from gridbridge.batch.gridengine.job_request_parser import parse_job_request, parse_slot_ranges
from gridbridge.model.transfer_route import GridEngineCellAccess

CELL = GridEngineCellAccess(root="/r", cell="alpha", qmaster_port="1", execd_port="2", binaries="/b", timeout_s=1)
GOLDEN = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9"
PLAIN = (GOLDEN / "job-hostile.xml").read_bytes()
HARD = (("h_rt", "60"), ("remote", "false"))
RANGES = b"""<JB_pe>smp</JB_pe><JB_pe_range>
<ranges><RN_min>2</RN_min><RN_max>4</RN_max><RN_step>1</RN_step></ranges>
<ranges><RN_min>8</RN_min><RN_max>8</RN_max><RN_step>1</RN_step></ranges></JB_pe_range>"""


def test_a_request_is_verified_without_default_options() -> None:
    asked = home_job_runnability_check.request_with_replaced_lists(parse_job_request(PLAIN + RANGES), HARD, "all.q")

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
    pinned = client_commands.pin_to_queue_command(CELL, "7", "transfer-beta", "*", rest)
    unpinned = client_commands.restore_queue_list_command(CELL, "7", "*", HARD)

    assert pinned[-6:] == (*words, "-ac", "gridbridge_stays=1", "7")[-6:]
    assert unpinned == (
        *("/b/qalter", "-q", "*", "-dc", "gridbridge_queues", "-hard", "-l", "h_rt=60"),
        *("-hard", "-l", "remote=false", "-dc", "gridbridge_stays", "7"),
    )
