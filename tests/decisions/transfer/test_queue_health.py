"""Why a transfer queue takes no jobs, and when everything that is shown may be old."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.transfer.transfer_status_explanation import (
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
    format_duration,
)
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause
from tests.shown import NOW, OPEN, cluster, load, queue, service, shown

ROUTE = service().routes[0]


def closed_by(what: PublishedFilesSnapshot) -> str:
    """Return why the queue is closed, empty when it is open."""
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

    assert told == f"5 jobs in a row failed at beta: nobody at beta saw the jobs' ends. {then}"


def at_home(state: str, used: int = 1) -> PublishedFilesSnapshot:
    """Return a service whose transfer queue shows these letters in qstat."""
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
        (shown(load=load({**OPEN, "gb_beta_pending": "10"})), "10 jobs wait at beta, 10 is the limit"),
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


def test_a_transfer_queue_with_one_usable_host_is_open() -> None:
    instances = (queue("transfer-beta@one", "d"), queue("transfer-beta@two"))
    what = shown(clusters={"alpha": cluster("alpha", *instances)})

    assert closed_by(what) == ""


def test_a_transfer_queue_without_pending_limit_stays_open() -> None:
    judged = report_transfer_queue_status(replace(ROUTE, pending_limit=0), shown(load=load(OPEN)), NOW)

    assert (judged.is_open, judged.why) == (True, "")


def test_load_values_older_than_the_limit_raise_the_silence_alarm() -> None:
    assert poller_silence_alarm(shown(load=load(age_s=30)), NOW) == ""
    assert poller_silence_alarm(shown(load=load(age_s=95)), NOW) == (
        "gridbridge-poller is silent for 95 s (30 s is the limit): the report below is as old, "
        "and the transfer queues are closed"
    )


def test_a_poller_that_never_published_raises_an_alarm() -> None:
    assert poller_silence_alarm(PublishedFilesSnapshot(), NOW) == "gridbridge-poller has never published anything here"


def a_service_that_refuses(*problems: str) -> PublishedFilesSnapshot:
    """Return a service whose newest gridbridge.toml is not in force for these reasons."""
    known = PublishedConfigurationStatus(sha256="1f", since=NOW, refused_sha256="2e", refused=problems)
    return shown(service=replace(service(), configuration=known))


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (PublishedFilesSnapshot(), ""),
        (a_service_that_refuses(), ""),
        (
            a_service_that_refuses("FILE: one"),
            "the service has an older gridbridge.toml, because it refuses the new file: FILE: one",
        ),
        (
            a_service_that_refuses("FILE: one", "FILE: two"),
            "the service has an older gridbridge.toml, because it refuses the new file: FILE: one"
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
