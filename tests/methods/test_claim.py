"""Whatever a starter submits for a transfer bears the claim that its first note tells of."""

from pathlib import Path

import pytest

from gridbridge.methods.begin import begin
from gridbridge.methods.sending import claim_lines
from gridbridge.methods.step import Step
from gridbridge.model import route
from gridbridge.model.message import Kind, Message, Outcome, Phase, encode
from gridbridge.model.transfer.claim import is_claim
from tests.methods.cells import TRANSFER, Place

BY_FILE, BY_GRANT = "file", "grant 600 gb_beta"


def lead(place: Place, claim: str) -> None:
    """Have the queue's route say this of claims."""
    known = place._route()
    known.remote_claim, known.remote_spool = claim, f"{place.folder}/spool"
    (place.folder / "published/queues/transfer-beta").write_bytes(route.encode(known))


def claims(place: Place) -> set[str]:
    """Return the claims that the starter's messages tell of."""
    return {message.claim for message in place.sent(Kind.RECORD)}


def as_told(place: Place) -> str:
    """Return what the wrapper of a submission would do for its claim."""
    return claim_lines(Step(place.task(), "", ("true",)))


@pytest.mark.parametrize("says", [BY_FILE, BY_GRANT])
def test_every_note_tells_of_one_claim(place: Place, says: str) -> None:
    lead(place, says)
    place.step()
    place.step()

    (claim,) = claims(place)
    assert is_claim(claim)
    assert claim.partition(".")[2] in as_told(place)


def test_without_claims_there_is_none(place: Place) -> None:
    place.step()

    assert (claims(place), as_told(place)) == ({""}, "")


def test_a_step_that_was_killed_before_the_submission_keeps_the_claim(place: Place) -> None:
    """What it may have submitted has that one."""
    lead(place, BY_FILE)
    step = Step(place.task(), "", ("true",))
    begin(step)
    place.step()

    assert claims(place) == {step.record.claim}


@pytest.mark.parametrize("says", ["", BY_GRANT], ids=["no claims", "another kind"])
def test_after_another_configuration_a_submission_has_no_claim(place: Place, says: str) -> None:
    """Nothing is called home by a claim that the wrapper might not know of."""
    lead(place, BY_FILE)
    begin(Step(place.task(), "", ("true",)))
    lead(place, says)
    place.step()

    record = place.task().record()
    assert record
    assert (record.phase, record.claim) == (Phase.RELEASED, "")


@pytest.mark.parametrize("claim", ["", "file.t0"], ids=["none", "one"])
def test_an_adopted_job_has_the_claim_that_it_was_submitted_with(place: Place, claim: str) -> None:
    lead(place, BY_FILE)
    history = place.folder / "published/jobs/7.json"
    history.parent.mkdir()
    history.touch()
    place.step()
    (asked,) = place.sent(Kind.ASK)
    reply = Message(kind=Kind.RECORD, transfer=TRANSFER, phase=Phase.SUBMITTING, claim=claim)
    reply = reply.but(remote="beta", queue="transfer-beta")
    path = Path(place.task().verdict(asked.wake))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(reply))
    place.step()

    assert claims(place) == {claim}


def test_a_verdict_by_claim_is_of_a_job_that_has_not_run(place: Place) -> None:
    """The other cluster is asked for nothing: it may be silent."""
    lead(place, BY_FILE)
    place.step()
    place.decide(outcome=Outcome.REQUEUE, claim="home", reason="recalled from beta: it is silent")
    place.down("beta")
    asked = len(place.calls("beta"))

    assert place.step() == "exit 99"
    assert len(place.calls("beta")) == asked
