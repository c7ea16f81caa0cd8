"""What a transfer is told to wait for, in every state that it can have."""

import pytest

from gridbridge.decisions.transfer.transfer_status_explanation import explain_transfer_attempt, explain_transfer_wait
from gridbridge.model.published_status_and_reports import (
    PublishedFilesSnapshot,
    PublishedTransfer,
    PublishedTransferHistory,
)
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from tests.shown import NOW, ago, cluster, queue, shown, transfer

SILENT = shown(clusters={"beta": cluster("beta", trouble="qstat: no answer in time")})
UNHEARD = shown(clusters={"beta": cluster("beta", queue("all.q@beta-n1", "au"))})


@pytest.mark.parametrize(
    ("one", "what", "words"),
    [
        (transfer(), shown(), "its end"),
        (
            transfer(phase="submitting", remote_id=None, remote_state=""),
            shown(),
            "the starter, to submit the job to beta",
        ),
        (
            transfer(
                phase="submitting",
                remote_id=None,
                remote_state="",
                cause=TransferFailureCause.BARRED,
                reason="tried in vain: ssh: no",
            ),
            shown(),
            "the starter, to submit the job to beta; tried in vain: ssh: no",
        ),
        (transfer(phase="held", remote_state=""), shown(), "the starter, to release the job at beta"),
        (
            transfer(phase="held", remote_state="hqw", desired="suspended"),
            shown(),
            "a resume (qmod -usj 12): your suspend holds the job at beta",
        ),
        (
            transfer(remote_state="hqw", desired="suspended"),
            shown(),
            "a resume (qmod -usj 12): your suspend holds the job at beta",
        ),
        (
            transfer(remote_state="s", desired="suspended"),
            shown(),
            "a resume (qmod -usj 12): the job is suspended at beta by your suspend",
        ),
        (transfer(remote_state="s"), shown(), "a resume: the job is suspended at beta by hand"),
        (transfer(remote_state="S"), shown(), "a resume: the job is suspended at beta with its queue"),
        (transfer(remote_state="qw"), shown(), "a free slot (2 waiting, 0 free)"),
        (transfer(remote_state="hqw"), shown(), "a release of the remote job's hold at beta"),
        (transfer(remote_state=""), shown(), "the next answer of beta"),
        (transfer(), UNHEARD, "news of host beta-n1, which does not report to beta"),
        (
            transfer(cause=TransferFailureCause.DROPPED, desired="dead"),
            shown(),
            "[cluster.beta] to be in /etc/gridbridge/gridbridge.toml again: until then"
            " nobody queries beta, and the job counts as alive",
        ),
        (
            transfer(),
            SILENT,
            "beta, which has not answered for 4 s: qstat: no answer in time;"
            " until the cluster answers, the job counts as alive",
        ),
        (transfer(missing_since=ago(12)), shown(), "the accounting of job 34, which beta has not listed for 12 s"),
        (
            transfer(remote_state="Eqw"),
            shown(),
            "the service, to bring the task home: beta put the job into the error state",
        ),
        (transfer(desired="dead"), shown(), "beta to delete the remote job, because the local job was deleted"),
        (transfer(outcome="exit status 3"), SILENT, "the starter, to report the job's end at home (exit status 3)"),
        (transfer(closed_at=NOW), shown(), ""),
    ],
    ids=[
        *("running", "being submitted", "tried in vain", "held until released", "suspended before it was released"),
        *("suspended while it waited", "suspended while it ran", "suspended there by somebody"),
        *("suspended by its queue there", "waiting", "held by somebody there", "not seen yet"),
        *("its host is unknown", "its cluster is configured no more", "its cluster is silent", "listed no more"),
        *("error state", "deleted here", "ended", "over"),
    ],
)
def test_a_transfer_names_the_event_that_it_waits_for(
    one: PublishedTransfer, what: PublishedFilesSnapshot, words: str
) -> None:
    assert explain_transfer_wait(one, what, NOW) == words


def test_the_explanation_shows_the_states_at_both_clusters_with_their_ages() -> None:
    told = explain_transfer_attempt(PublishedTransferHistory(transfer=transfer()), shown(), NOW)

    assert told.where == "job 12 of alice is at beta as job 34"
    assert told.here == "r in transfer-beta for 5 min"
    assert told.there == "r on beta-n1 for 3 min"


def test_the_explanation_of_a_closed_transfer_shows_the_job_end() -> None:
    over = transfer(closed_at=ago(5), reason="ended here: exit status 3", outcome="exit status 3")

    told = explain_transfer_attempt(PublishedTransferHistory(transfer=over), shown(), NOW)

    assert told.where == "job 12 of alice was sent to beta as job 34; the transfer has ended"
    assert (told.here, told.there) == ("ended here: exit status 3", "exit status 3")


@pytest.mark.parametrize(("outcome", "here"), [("", "not listed"), ("exit status 3", "ending")])
def test_a_transfer_that_the_home_job_list_lacks_is_shown_as_unlisted_or_ending(outcome: str, here: str) -> None:
    one = transfer(local_state="", local_since=None, outcome=outcome)

    told = explain_transfer_attempt(PublishedTransferHistory(transfer=one), shown(), NOW)

    assert told.here == f"{here} in transfer-beta"
