"""Why a transfer queue refuses a job or is closed, and how a refused job stays home."""

from collections.abc import Mapping

import pytest

from gridbridge.decisions.transfer.refused_job_stay_home_request import (
    drop_transfer_queues_from_list,
    rerun_policy_by_home_queues,
    stay_home_request_changes,
)
from gridbridge.decisions.transfer.transfer_queue_admission import (
    why_cluster_refuses_owner,
    why_queue_refuses_job,
    why_request_excludes_queue,
)
from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh
from gridbridge.model.config_key_descriptions import RemoteAccounts
from gridbridge.model.job_request import JobRequest
from gridbridge.model.jobs_and_accounting import JobRequestAndSubmitOptions, QueueJobAndUserRestrictions

PEOPLE = QueueJobAndUserRestrictions(people=("bob", "@physics"))


def a_job(owner: str = "carol", pe: str = "", fewest: int = 1) -> JobRequestAndSubmitOptions:
    return JobRequestAndSubmitOptions(
        request=JobRequest(owner=owner), account="sge", pe=pe, slots=fewest, fewest=fewest, cwd="", is_interactive=False
    )


@pytest.mark.parametrize(
    ("users", "owner", "is_refused"),
    [
        (RemoteAccounts(), "carol", False),
        (RemoteAccounts(gridbridge="gb_delta"), "carol", False),
        (RemoteAccounts(alice="al_delta"), "carol", True),
        (RemoteAccounts(carol="carol", alice="al_delta"), "carol", False),
    ],
    ids=["nobody is named", "the service alone", "others", "by the same name"],
)
def test_a_users_table_admits_only_the_accounts_that_it_names(
    users: RemoteAccounts, owner: str, is_refused: bool
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
        *(
            "any queue",
            "and a transfer queue",
            "on one host",
        ),
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
