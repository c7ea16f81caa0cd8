"""Each submission of a transfer has the claim of its first note."""

import os

import pytest

from gridbridge.errors import StateError
from gridbridge.model import transfer_route
from gridbridge.model.transfer.claim_and_guard import (
    CLAIMS_FOLDER,
    claim_key_file_name_and_contents,
    is_valid_claim_name,
    split_claim_name,
)
from gridbridge.model.transfer_messages_in_spool import StarterPhase, TransferMessageKind, TransferOutcome
from gridbridge.transfer.starter.first_note_and_guard import write_first_transfer_note
from gridbridge.transfer.starter.remote_job_submission_step import claim_wrapper_lines
from gridbridge.transfer.starter.starter_step_context import StarterStepContext
from tests.transfer.starter.cells import Place

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


def test_a_job_script_names_the_claim_key_file_without_its_contents(place: Place) -> None:
    lead(place, BY_FILE)
    place.step()
    (claim,) = claims(place)
    name, word = claim_key_file_name_and_contents(claim, os.getuid())

    assert keys(place) == {name: f"{word}\n"}
    sent = as_told(place)
    assert name in sent
    assert word not in sent


def test_a_claim_key_is_written_again_after_the_spool_was_emptied(place: Place) -> None:
    lead(place, BY_FILE)
    place.step()
    before = keys(place)
    for name in before:
        (place.folder / "spool" / CLAIMS_FOLDER / name).unlink()
    place.step("look")

    assert before
    assert keys(place) == before


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
