"""What a transfer waits for, and why a transfer queue is closed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.transfer.transfer_status_explanation import (
    NEVER_PUBLISHED,
    explain_transfer_attempt,
    explain_transfer_wait,
    full_folder_warning,
    poller_silence_alarm,
    refused_configuration_warning,
    report_cluster_reachability,
    report_transfer_queue_status,
    why_breaker_closed_queues,
)
from gridbridge.model.published_status_and_reports import (
    PublishedClusterBreaker,
    PublishedConfigurationStatus,
    PublishedFilesSnapshot,
    PublishedTransfer,
    PublishedTransferHistory,
    format_duration,
)
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from tests.shown import NOW, OPEN, ago, cluster, load, queue, service, shown, transfer

SILENT = shown(clusters={"beta": cluster("beta", trouble="qstat: no answer in time")})
UNHEARD = shown(clusters={"beta": cluster("beta", queue("all.q@beta-n1", "au"))})
UNSENT = transfer(phase="submitting", remote_id=None, remote_state="", cause=TransferFailureCause.BARRED)
DROPPED = transfer(cause=TransferFailureCause.DROPPED, desired="dead")


@pytest.mark.parametrize(
    ("one", "what", "words"),
    [
        (transfer(), shown(), "its end"),
        (
            replace(UNSENT, reason="in vain: ssh: no"),
            shown(),
            "the starter, to submit the job to beta; in vain: ssh: no",
        ),
        (transfer(phase="held", remote_state=""), shown(), "the starter, to release the job at beta"),
        (
            transfer(phase="held", remote_state="hqw", desired="suspended"),
            shown(),
            "a resume (qmod -usj 12): your suspend holds the job at beta",
        ),
        (
            transfer(remote_state="s", desired="suspended"),
            shown(),
            "a resume (qmod -usj 12): your suspend also suspended the job at beta",
        ),
        (transfer(remote_state="s"), shown(), "a resume: the job is suspended at beta by hand"),
        (transfer(remote_state="S"), shown(), "a resume: the job is suspended at beta with its queue"),
        (transfer(remote_state="qw"), shown(), "a free slot (2 waiting, 0 free)"),
        (transfer(remote_state="hqw"), shown(), "a release of the remote job's hold at beta"),
        (transfer(remote_state=""), shown(), "the next answer of beta"),
        (transfer(), UNHEARD, "news of host beta-n1, which does not report to beta"),
        (
            DROPPED,
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
        (
            transfer(missing_since=ago(12)),
            shown(),
            "the accounting record of job 34; beta has not listed the job for 12 s",
        ),
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
        *("running", "tried in vain", "held until released", "suspended before it was released"),
        *("suspended while it ran", "suspended there by somebody"),
        *("suspended by its queue there", "waiting", "held by somebody there", "not seen yet"),
        *("its host is unknown", "its cluster is configured no more", "its cluster is silent", "listed no more"),
        *("error state", "deleted here", "ended", "over"),
    ],
)
def test_a_transfer_names_the_event_that_it_waits_for(
    one: PublishedTransfer, what: PublishedFilesSnapshot, words: str
) -> None:
    assert explain_transfer_wait(one, what, NOW) == words


AT_BETA = "job 12 of alice is at beta as job 34"
OVER = {"closed_at": ago(5), "reason": "ended here: exit status 3", "outcome": "exit status 3"}
UNLISTED = {"local_state": "", "local_since": None}


@pytest.mark.parametrize(
    ("state", "where", "here", "there"),
    [
        ({}, AT_BETA, "r in transfer-beta for 5 min", "r on beta-n1 for 3 min"),
        (
            OVER,
            "job 12 of alice was sent to beta as job 34; the transfer has ended",
            *("ended here: exit status 3", "exit status 3"),
        ),
        (UNLISTED, AT_BETA, "not listed in transfer-beta", "r on beta-n1 for 3 min"),
        (UNLISTED | {"outcome": "exit status 3"}, AT_BETA, "ending in transfer-beta", "exit status 3"),
    ],
    ids=["running", "closed", "unlisted at home", "ending"],
)
def test_the_explanation_shows_the_states_at_both_clusters_with_their_ages(
    state: dict[str, Any], where: str, here: str, there: str
) -> None:
    history = PublishedTransferHistory(transfer=transfer(**state))
    explained = explain_transfer_attempt(history, shown(), NOW)

    assert (explained.where, explained.here, explained.there) == (where, here, there)


ROUTE = service().routes[0]


def closed_by(what: PublishedFilesSnapshot) -> str:
    """Return why the queue is closed; empty for an open queue."""
    judged = report_transfer_queue_status(ROUTE, what, NOW)
    assert judged.is_open == (not judged.why)
    return judged.why


@pytest.mark.parametrize(
    ("left_min", "then"),
    [(5, "The queues let in the next job in 5 min."), (-1, "The queues let in one job.")],
    ids=["closed", "probed"],
)
def test_the_breaker_reason_says_when_the_queues_accept_jobs_again(left_min: int, then: str) -> None:
    until = NOW + timedelta(minutes=left_min)
    known = PublishedClusterBreaker(cluster="beta", failures=5, until=until, cause=TransferFailureCause.LOST)

    told = why_breaker_closed_queues("beta", shown(breakers={"beta": known}), NOW)

    assert told == f"5 jobs in a row failed at beta: beta did not see how these jobs ended. {then}"


def at_home(state: str, used: int = 1) -> PublishedFilesSnapshot:
    home = cluster("alpha", queue(state=state, used=used))
    return shown(clusters={"alpha": home, "beta": cluster("beta")})


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (shown(), ""),
        (at_home("", used=2), "every slot is used"),
        (at_home("d"), "disabled"),
        (at_home("aE"), "in error state: after the repair, qmod -cq clears the state"),
        (at_home("a"), "the load values are fine: the queue opens at the next load report"),
        (shown(load=load({**OPEN, "gb_beta_pending": "10"})), "10 jobs wait at beta; the limit is 10"),
        (
            shown(
                load=load({"gb_beta_up": "0"}),
                clusters={
                    "alpha": cluster("alpha", queue(state="a")),
                    "beta": cluster("beta", trouble="qstat: no answer in time"),
                },
            ),
            "beta has not answered for 4 s: qstat: no answer in time",
        ),
        (shown(load=load(age_s=31)), "the load values are too old"),
        (shown(load=load({"gb_beta_up": "0"}), service=replace(service(), full="/s is full")), "/s is full"),
        (shown(load=None), "the load values are too old"),
        (shown(clusters={"alpha": cluster("alpha")}), "the home cluster does not list this queue"),
    ],
    ids=[
        *("open", "full", "disabled", "an error counts more than an alarm", "the load report is behind"),
        *("the limit itself closes", "the other cluster is silent", "stale", "nobody can write a message"),
        *("no load values", "no such queue"),
    ],
)
def test_a_closed_transfer_queue_names_the_cause(what: PublishedFilesSnapshot, why: str) -> None:
    assert closed_by(what) == why


def test_a_transfer_queue_with_one_usable_host_or_without_pending_limit_is_open() -> None:
    instances = (queue("transfer-beta@one", "d"), queue("transfer-beta@two"))
    unlimited = report_transfer_queue_status(replace(ROUTE, pending_limit=0), shown(load=load(OPEN)), NOW)

    assert closed_by(shown(clusters={"alpha": cluster("alpha", *instances)})) == ""
    assert (unlimited.is_open, unlimited.why) == (True, "")


def test_load_values_that_are_missing_or_older_than_the_limit_raise_the_silence_alarm() -> None:
    assert poller_silence_alarm(PublishedFilesSnapshot(), NOW) == NEVER_PUBLISHED
    assert poller_silence_alarm(shown(load=load(age_s=30)), NOW) == ""
    assert poller_silence_alarm(shown(load=load(age_s=95)), NOW) == (
        "gridbridge-poller is silent for 95 s (the limit is 30 s): the report below has the same age, "
        "and the transfer queues are closed"
    )


def a_service_that_refuses(*problems: str) -> PublishedFilesSnapshot:
    known = PublishedConfigurationStatus(sha256="1f", since=NOW, refused_sha256="2e", refused=problems)
    return shown(service=replace(service(), configuration=known))


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (PublishedFilesSnapshot(), ""),
        (a_service_that_refuses(), ""),
        (
            a_service_that_refuses("FILE: one"),
            "the service uses an older gridbridge.toml, because it refuses the new file: FILE: one",
        ),
        (
            a_service_that_refuses("FILE: one", "FILE: two"),
            "the service uses an older gridbridge.toml, because it refuses the new file: FILE: one"
            " (and 1 more, see gridbridge check)",
        ),
    ],
    ids=["no service", "right", "wrong", "twice wrong"],
)
def test_a_refused_configuration_file_is_a_warning_with_its_problems(what: PublishedFilesSnapshot, told: str) -> None:
    assert refused_configuration_warning(what) == told


def test_a_full_folder_is_a_warning() -> None:
    assert full_folder_warning(shown()) == full_folder_warning(PublishedFilesSnapshot()) == ""
    assert full_folder_warning(shown(service=replace(service(), full="/s is full"))) == (
        "/s is full; every transfer queue is closed until the folder has room"
    )


def test_a_cluster_that_never_answered_is_reported_as_unreachable() -> None:
    never = cluster("beta", taken_at=None, pending=None, trouble="qstat: no route to host")

    judged = report_cluster_reachability(never, NOW)

    assert (judged.answers, judged.why) == (False, "has not answered yet: qstat: no route to host")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7320, "2 h 2 min"), (172800, "2 d 0 h")],
)
def test_durations_have_one_or_two_units(seconds: int, words: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == words
