"""Why a transfer queue refuses a job, how a refused job stays home, and which queues keep a job."""

from collections.abc import Mapping

import pytest

from gridbridge.decisions.transfer.refused_job_stay_home_request import (
    drop_transfer_queues_from_list,
    rerun_policy_by_home_queues,
    stay_home_request_changes,
)
from gridbridge.decisions.transfer.transfer_job_refusal_reasons import (
    find_local_only_queues,
    why_cluster_refuses_owner,
    why_queue_refuses_job,
    why_request_excludes_queue,
)
from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh
from gridbridge.model.cluster_snapshot import QueueInstanceStatus
from gridbridge.model.config_key_descriptions import AccountByUser
from gridbridge.model.job_request import JobRequest
from gridbridge.model.jobs_and_accounting import JobRequestAndSubmitOptions, QueueJobAndUserRestrictions
from gridbridge.model.names_offered_by_cluster import NonForwardingQueues

PEOPLE = QueueJobAndUserRestrictions(people=("bob", "@physics"))


def a_job(owner: str = "carol", pe: str = "", fewest: int = 1) -> JobRequestAndSubmitOptions:
    return JobRequestAndSubmitOptions(
        request=JobRequest(owner=owner), account="sge", pe=pe, slots=fewest, fewest=fewest, cwd="", is_interactive=False
    )


@pytest.mark.parametrize(
    ("users", "owner", "is_refused"),
    [
        (AccountByUser(), "carol", False),
        (AccountByUser(gridbridge="gb_delta"), "carol", False),
        (AccountByUser(alice="al_delta"), "carol", True),
        (AccountByUser(carol="carol", alice="al_delta"), "carol", False),
    ],
    ids=["nobody is named", "the service alone", "others", "by the same name"],
)
def test_a_users_table_admits_only_the_accounts_that_it_names(
    users: AccountByUser, owner: str, is_refused: bool
) -> None:
    assert bool(why_cluster_refuses_owner(owner, users, "gridbridge", "cluster.delta.users")) is is_refused


@pytest.mark.parametrize(
    ("limits", "job", "word"),
    [
        (QueueJobAndUserRestrictions(), a_job(pe="smp", fewest=99), ""),
        (PEOPLE, a_job(), "user_lists"),
        (PEOPLE, a_job("bob"), ""),
        (QueueJobAndUserRestrictions(environments=("smp", "mpi")), a_job(pe="m*"), ""),
        (QueueJobAndUserRestrictions(environments=("smp",)), a_job(pe="m*"), "pe_list"),
        (QueueJobAndUserRestrictions(environments=()), a_job(), ""),
        (QueueJobAndUserRestrictions(slots=4), a_job(pe="smp", fewest=4), ""),
        (QueueJobAndUserRestrictions(slots=4), a_job(pe="smp", fewest=5), "slots"),
    ],
)
def test_a_queue_refuses_jobs_by_user_list_and_parallel_environment_and_slots(
    limits: QueueJobAndUserRestrictions, job: JobRequestAndSubmitOptions, word: str
) -> None:
    refused = why_queue_refuses_job("q", limits, job, frozenset())

    assert word in refused
    assert bool(refused) is bool(word)


def test_a_group_in_a_user_list_admits_its_members() -> None:
    assert why_queue_refuses_job("q", PEOPLE, a_job(), frozenset({"physics"})) == ""


@pytest.mark.parametrize(
    ("hard", "queues", "is_kept"),
    [
        ((), "", False),
        ((("remote", "true"),), "", False),
        ((("remote", "false"),), "", True),
        ((), "all.q", True),
        ((), "all.q@n1,long.q", True),
        ((), "all.q,transfer-beta@n1", False),
        ((), "*", False),
        ((), "all.q,t*", False),
        ((), "@fast", False),
    ],
)
def test_a_request_for_other_queues_excludes_the_transfer_queue(
    hard: tuple[tuple[str, str], ...], queues: str, is_kept: bool
) -> None:
    told = why_request_excludes_queue("transfer-beta", JobRequest(owner="carol", hard=hard, queues=queues))

    assert bool(told) is is_kept


TRANSFER = ("transfer-gamma", "transfer-beta")
NEITHER = "!transfer-beta&!transfer-gamma"


@pytest.mark.parametrize(
    ("queues", "kept"),
    [
        ("", NEITHER),
        ("*", NEITHER),
        ("transfer-beta", ""),
        ("transfer-beta,transfer-gamma@t", ""),
        ("transfer-beta@t,all.q@n1,fast.q@@big", "all.q@n1,fast.q@@big"),
        ("*@n1", f"{NEITHER}@n1"),
        ("*.q|transfer-*", f"(*.q|transfer-*)&{NEITHER}"),
        ("!all.q@n*", f"(!all.q)&{NEITHER}@n*"),
    ],
)
def test_a_queue_list_loses_only_its_transfer_queues(queues: str, kept: str) -> None:
    assert kept == drop_transfer_queues_from_list(queues, TRANSFER)


@pytest.mark.parametrize(
    ("hard", "queues", "expected"),
    [
        (
            (("h_rt", "60"), ("remote", "false"), ("arch", "")),
            "",
            (((("h_rt", "60"), ("arch", ""), ("remote", "false")), None), (None, NEITHER)),
        ),
        ((), "transfer-beta", (((("remote", "false"),), None),)),
        ((("remote", "TRUE"),), "", ()),
        ((("remote", ""),), "", ()),
    ],
    ids=["both ways", "transfer queues alone", "requests to leave", "a BOOL without a value"],
)
def test_a_refused_job_stays_home_by_resource_request_or_by_queue_list(
    hard: tuple[tuple[str, str], ...], queues: str, expected: tuple[object, ...]
) -> None:
    assert stay_home_request_changes(hard, queues, TRANSFER) == expected


MIXED = {"all.q": "TRUE", "short.q": "FALSE"}


@pytest.mark.parametrize(
    ("queues", "own", "expected"),
    [
        ("", MIXED, "no"),
        ("all.q,transfer-beta", MIXED, "yes"),
        ("all.q@node1", MIXED, "yes"),
        ("all.q,short.q", MIXED, "no"),
        ("a*", MIXED, "no"),
        ("*@@new", MIXED, "no"),
        ("transfer-beta", {"all.q": "TRUE"}, "no"),
        ("", {"all.q": "TRUE"}, "yes"),
        ("", {"all.q": "TRUE,[node1=FALSE]"}, "no"),
        ("", {}, "no"),
    ],
    ids=[
        *("any queue", "and a transfer queue", "on one host"),
        *("two that differ", "a pattern may mean any", "any queue of some hosts", "a transfer queue alone"),
        *("all say yes", "some hosts say no", "there is none"),
    ],
)
def test_the_home_queues_of_a_job_decide_whether_a_lost_job_runs_again(
    queues: str, own: Mapping[str, str], expected: str
) -> None:
    assert rerun_policy_by_home_queues((), queues, own) == expected


@pytest.mark.parametrize(("value", "expected"), [("true", "no"), ("", "no"), ("false", "yes")], ids=str)
def test_a_job_that_requests_remote_execution_never_runs_again_by_home_queues(value: str, expected: str) -> None:
    assert rerun_policy_by_home_queues((("remote", value),), "", {"all.q": "TRUE"}) == expected


@pytest.mark.parametrize(("age_s", "is_fresh"), [(-2, False), (-1, True), (0, True), (30, True), (31, False)])
def test_load_values_that_are_stale_or_from_the_future_are_not_fresh(age_s: float, is_fresh: bool) -> None:
    assert are_load_values_fresh(age_s, 30) is is_fresh


AWAY = "transfer-alpha"
YIELDS = "gb-be1"


def queue(name: str, remote: str = "", host: str = "n1") -> QueueInstanceStatus:
    return QueueInstanceStatus(
        name=f"{name}@{host}",
        slots_used=0,
        slots_reserved=0,
        slots_total=2,
        sends_away=remote == "TRUE",
        says_stay=remote == "FALSE",
        is_besteffort=name == YIELDS,
    )


@pytest.mark.parametrize(
    ("queues", "kept", "all_say"),
    [
        ([queue("all.q", "FALSE")], None, ""),
        ([queue("all.q")], None, ""),
        ([queue(AWAY, "TRUE")], None, ""),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue("big.q", "FALSE")], "all.q,big.q", "yes"),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue("big.q")], "all.q,big.q", ""),
        ([queue("all.q"), queue(AWAY, "TRUE")], "all.q", ""),
        ([queue("all.q", "FALSE"), queue("all.q", host="n2"), queue(AWAY, "TRUE")], "all.q", ""),
        ([queue("all.q", "FALSE"), queue(AWAY), queue(AWAY, "TRUE", "n2")], "all.q", "yes"),
        ([queue("all.q", "FALSE"), queue(AWAY, "TRUE"), queue(YIELDS)], "all.q", "yes"),
        ([queue("all.q", "FALSE"), queue("out")], "all.q", "yes"),
    ],
    ids=[
        *("no queue back", "nothing said", "nothing else", "all others say so", "some do"),
        *("none does", "a host does not", "a host sends on", "best-effort", "our own transfer queue"),
    ],
)
def test_a_job_is_kept_from_queues_that_send_it_on(
    queues: list[QueueInstanceStatus], kept: str | None, all_say: str
) -> None:
    expected = kept and NonForwardingQueues(queues=kept, all_say=all_say)

    assert find_local_only_queues(queues, ("out",)) == expected


@pytest.mark.parametrize(
    ("all_say", "targets", "mapped", "requested"),
    [
        ("yes", "", ("", True), ("", True)),
        ("", "", ("all.q,big.q", False), ("all.q,big.q", False)),
        ("yes", "big.q", ("big.q", True), ("big.q", True)),
        ("", "big.q@n1,transfer-alpha", ("big.q@n1", False), ("big.q@n1", False)),
        ("yes", "big.q,transfer-alpha", ("big.q,transfer-alpha", True), ("big.q,transfer-alpha", True)),
        ("yes", "transfer-alpha", ("transfer-alpha", False), None),
        ("", "transfer-alpha", ("transfer-alpha", False), None),
        ("yes", "*@@fast", ("*@@fast", False), ("*@@fast", True)),
        ("", "*@@fast", ("*@@fast", False), None),
    ],
    ids=[
        *("by remote", "by queue", "both", "of several", "one sends on", "nothing else"),
        *("nor there", "a pattern", "a pattern that may mean any"),
    ],
)
def test_the_requested_queues_are_asked_for_as_far_as_they_keep_the_job(
    all_say: str, targets: str, mapped: tuple[str, bool], requested: tuple[str, bool] | None
) -> None:
    """A job with a request for a queue that it cannot get would wait for ever.

    A JDL that names only such a queue is therefore refused.
    """
    queues = NonForwardingQueues(queues="all.q,big.q", all_say=all_say)
    found = queues.restrict_request_or_none(JobRequest(targets=targets))

    assert queues.restrict_remote_queues(targets) == mapped
    assert (found and (found.targets, found.stays)) == requested
