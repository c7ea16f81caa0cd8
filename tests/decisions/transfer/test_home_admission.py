"""Reasons for which a transfer queue or cluster never accepts a job."""

import pytest

from gridbridge.decisions.transfer.transfer_queue_admission import (
    why_cluster_refuses_owner,
    why_queue_refuses_job,
    why_request_excludes_queue,
)
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
