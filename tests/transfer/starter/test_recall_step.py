"""Each submission has the claim of its first note, and a starter recalls its job without running the task twice."""

import os
from typing import Any

import pytest

from gridbridge.batch.gridengine import job_submission_and_control
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model import transfer_route
from gridbridge.model.transfer.claim_and_guard import (
    CLAIMS_FOLDER,
    claim_key_file_name_and_contents,
    is_valid_claim_name,
    split_claim_name,
)
from gridbridge.model.transfer_messages_in_spool import StarterPhase, TransferMessageKind, TransferOutcome
from gridbridge.transfer.starter import task_return_home
from gridbridge.transfer.starter.first_note_and_guard import write_first_transfer_note
from gridbridge.transfer.starter.remote_job_submission_step import claim_wrapper_lines
from gridbridge.transfer.starter.starter_step_context import StarterStepContext
from tests.transfer.starter.cells import UNDEFER, Place

WHY = "recalled from beta: it waited long"


@pytest.fixture
def recalled(place: Place) -> Place:
    """Return a job that waits at beta, with a recall request."""
    place.step()
    place.decide(outcome=TransferOutcome.RECALL, reason=WHY)
    return place


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_return_home, "SETTLE_S", 0)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize("letters", ["qw", "Rq"], ids=["waiting", "rescheduled there"])
def test_a_recalled_waiting_job_is_deleted_and_its_task_runs_again(recalled: Place, letters: str) -> None:
    (recalled.folder / "beta/41").write_text(f"{letters}\n")
    answer = recalled.step()

    assert (answer, recalled.away()) == ("exit 99", None)
    [closed] = recalled.sent(TransferMessageKind.CLOSED)
    assert (closed.outcome, closed.reason) == (TransferOutcome.REQUEUE, WHY)
    assert recalled.calls("alpha qalter")[-1] == f"alpha qalter {UNDEFER}"


@pytest.mark.usefixtures("_at_once")
def test_a_recall_does_not_delete_a_different_job_under_the_same_remote_id(recalled: Place) -> None:
    recalled.begin_anew(transfer="gb.alpha.9.0.1")

    with pytest.raises(GridbridgeError, match=r"; expected \w+, account .gb\.alpha\.7\.0\.1"):
        recalled.step()
    assert recalled.away() == "qw"


@pytest.mark.parametrize("letters", ["r", "Rr"])
def test_a_recalled_job_is_held_and_queried_again_and_a_started_job_runs_on(recalled: Place, letters: str) -> None:
    first, held = recalled.step(), recalled.away()
    (recalled.folder / "beta/41").write_text(f"{letters}\n")
    second = recalled.step()

    assert [answer.split()[:2] for answer in (first, second)] == [["again", "2"]] * 2
    assert (held, recalled.away(), recalled.calls("qdel")) == ("hqw", letters, [])


def test_a_recalled_job_that_is_unlisted_is_left_to_the_poller(recalled: Place) -> None:
    """The job may have run and ended."""
    (recalled.folder / "beta/41").unlink()

    assert recalled.step().startswith("again ")
    assert recalled.sent(TransferMessageKind.CLOSED) == []


def test_a_begun_recall_is_completed_without_the_request_of_the_poller(recalled: Place) -> None:
    recalled.step()
    recalled.retract()
    recalled.start_away()
    recalled.step()

    assert recalled.step().startswith("wait ")
    assert recalled.away() == "r"


@pytest.mark.usefixtures("_at_once")
def test_a_job_end_replaces_the_recall_request(recalled: Place) -> None:
    recalled.decide(outcome=TransferOutcome.EXIT, exit_status="3")

    assert recalled.step() == "exit 3"
    assert recalled.calls("qdel") == []


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(
    ("outcome", "answer"), [(TransferOutcome.ERROR, "exit 99"), (TransferOutcome.EXIT, "exit 3")], ids=["none", "one"]
)
def test_after_an_unconfirmed_deletion_the_poller_reports_whether_the_job_ended(
    recalled: Place, outcome: str, answer: str
) -> None:
    (recalled.folder / "beta/mute").touch()
    with pytest.raises(GridbridgeError):
        recalled.step()
    meanwhile = recalled.step()
    recalled.decide(outcome=outcome, exit_status="3", reason="beta has no trace of job 41")

    assert (meanwhile.split()[0], recalled.step()) == ("again", answer)
    assert [one.outcome for one in recalled.sent(TransferMessageKind.CLOSED)] == [
        TransferOutcome.REQUEUE if answer == "exit 99" else TransferOutcome.EXIT
    ]


def start_before_deletion(recalled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the job start between the last look at it and its deletion."""
    delete = job_submission_and_control.delete_waiting_job

    def start_and_delete(*words: Any) -> bool | None:
        recalled.start_away()
        return delete(*words)

    monkeypatch.setattr(job_submission_and_control, "delete_waiting_job", start_and_delete)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        ({"outcome": TransferOutcome.ERROR}, "exit 99"),
        ({"outcome": TransferOutcome.SIGNAL, "signal": "9"}, "exit 99"),
        ({"outcome": TransferOutcome.EXIT, "exit_status": "0"}, "exit 0"),
    ],
)
def test_an_end_reported_before_the_deletion_is_confirmed_does_not_count_as_killed(
    recalled: Place, monkeypatch: pytest.MonkeyPatch, verdict: dict[str, Any], answer: str
) -> None:
    start_before_deletion(recalled, monkeypatch)
    # it is listed still
    monkeypatch.setattr(task_return_home, "_confirm_remote_job_gone", lambda *_: task_return_home.CONFIRM_S)
    assert recalled.step().split()[:2] == ["again", str(task_return_home.CONFIRM_S)]
    recalled.decide(**verdict, reason="beta says so")

    assert recalled.step() == answer


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen dying", "gone"])
@pytest.mark.parametrize(("signal", "answer"), [("9", "exit 99"), ("12", "exit 99"), ("11", "signal 11")])
def test_a_job_that_started_before_an_unconfirmed_deletion_runs_again_unless_it_crashed(
    recalled: Place, monkeypatch: pytest.MonkeyPatch, *, is_seen: bool, signal: str, answer: str
) -> None:
    monkeypatch.setattr(task_return_home, "SETTLE_S", 0)
    remote = recalled.folder / "beta/41"
    (recalled.folder / "beta/mute").touch()
    with monkeypatch.context() as patch:
        start_before_deletion(recalled, patch)
        with pytest.raises(GridbridgeError):
            recalled.step()
    if is_seen:
        remote.write_text("dr")
        assert recalled.step().startswith("again")
        remote.unlink()
    assert recalled.step().startswith("again")
    recalled.decide(outcome=TransferOutcome.SIGNAL, signal=signal, reason="beta says failed 100")

    assert recalled.step() == answer


@pytest.mark.usefixtures("_at_once")
def test_a_silent_cluster_delays_a_recall(recalled: Place) -> None:
    recalled.down("beta")

    with pytest.raises(GridbridgeError):
        recalled.step()
    recalled.down("beta", is_down=False)

    assert recalled.away() == "qw"
    assert recalled.step() == "exit 99"


def test_a_cluster_kind_without_recall_ignores_a_recall_request(
    recalled: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(job_submission_and_control, "delete_waiting_job")

    assert recalled.step().split()[0] == "wait"
    assert recalled.calls("qhold") == []


BY_FILE, BY_GRANT = "file", "grant 600 gb_beta"


def lead(place: Place, claim: str) -> None:
    known = place._route()
    known.remote_claim, known.remote_spool = claim, f"{place.folder}/spool"
    (place.folder / "spool" / CLAIMS_FOLDER).mkdir(exist_ok=True)
    (place.folder / "published/queues/transfer-beta").write_bytes(transfer_route.encode_transfer_route(known))


def claims(place: Place) -> set[str]:
    return {message.claim for message in place.sent(TransferMessageKind.RECORD)}


def as_told(place: Place) -> str:
    """Return the shell lines of a submission's claim."""
    return claim_wrapper_lines(StarterStepContext(place.task(), "", ("true",)))


def keys(place: Place) -> dict[str, str]:
    folder = place.folder / "spool" / CLAIMS_FOLDER
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_job_script_names_the_claim_key_file_which_is_written_again_if_it_is_gone(place: Place) -> None:
    lead(place, BY_FILE)
    place.step()
    (claim,) = claims(place)
    name, word = claim_key_file_name_and_contents(claim, os.getuid())

    assert keys(place) == {name: f"{word}\n"}
    assert (name in as_told(place), word in as_told(place)) == (True, False)
    (place.folder / "spool" / CLAIMS_FOLDER / name).unlink()  # the spool was emptied
    place.step("look")
    assert keys(place) == {name: f"{word}\n"}


def test_without_the_claims_folder_no_job_is_submitted(place: Place) -> None:
    lead(place, BY_FILE)
    (place.folder / "spool" / CLAIMS_FOLDER).rmdir()

    with pytest.raises(StateError, match=CLAIMS_FOLDER):
        place.step()
    assert not place.calls("qsub")


@pytest.mark.parametrize("says", [BY_FILE, BY_GRANT])
def test_all_records_of_a_transfer_name_one_claim(place: Place, says: str) -> None:
    lead(place, says)
    place.step()
    place.step()

    (claim,) = claims(place)
    assert is_valid_claim_name(claim)
    token = split_claim_name(claim)[1]
    assert (token if says == BY_GRANT else token[: len(token) // 2]) in as_told(place)


def test_a_route_without_claims_submits_a_job_without_claim(place: Place) -> None:
    place.step()

    assert (claims(place), as_told(place)) == ({""}, "")


def test_a_step_repeated_after_a_kill_before_submission_keeps_the_claim(place: Place) -> None:
    lead(place, BY_FILE)
    step = StarterStepContext(place.task(), "", ("true",))
    write_first_transfer_note(step)
    place.step()

    assert claims(place) == {step.record.claim}


@pytest.mark.parametrize("says", ["", BY_GRANT], ids=["no claims", "another kind"])
def test_a_submission_after_a_changed_claim_kind_has_no_claim(place: Place, says: str) -> None:
    lead(place, BY_FILE)
    write_first_transfer_note(StarterStepContext(place.task(), "", ("true",)))
    lead(place, says)
    place.step()

    record = place.task().read_transfer_note()
    assert (record.phase, record.claim) == (StarterPhase.RELEASED, "")


@pytest.mark.parametrize("claim", ["", "file.t0"], ids=["none", "one"])
def test_an_adopted_job_keeps_the_claim_of_its_submission(place: Place, claim: str) -> None:
    lead(place, BY_FILE)
    history = place.folder / "published/jobs/7.json"
    history.parent.mkdir()
    history.touch()
    place.step()
    (asked,) = place.sent(TransferMessageKind.ASK)
    known = {"remote": "beta", "queue": "transfer-beta", "claim": claim}
    place.answer(asked.wake, phase=StarterPhase.SUBMITTING, **known)
    place.step()

    assert claims(place) == {claim}


def test_a_recall_by_claim_ends_the_task_without_a_query_of_the_remote_cluster(place: Place) -> None:
    lead(place, BY_FILE)
    place.step()
    place.decide(outcome=TransferOutcome.REQUEUE, claim="home", reason="recalled from beta: it is silent")
    place.down("beta")
    asked = len(place.calls("beta"))

    assert place.step() == "exit 99"
    assert len(place.calls("beta")) == asked
