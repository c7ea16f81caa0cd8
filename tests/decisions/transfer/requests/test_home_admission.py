"""A job that its transfer queue takes in vain at home waits for ever: it is told why."""

import pytest

from gridbridge.decisions.transfer.requests.home_admission import home_only_reason, refusal, unnamed
from gridbridge.model.job import QueueLimits, SubmittedJob
from gridbridge.model.request import JobRequest
from gridbridge.model.text_tables import Users

PEOPLE = QueueLimits(people=("bob", "@physics"))


def a_job(owner: str = "carol", pe: str = "", fewest: int = 1) -> SubmittedJob:
    return SubmittedJob(
        request=JobRequest(owner=owner),
        account="sge",
        pe=pe,
        slots=fewest,
        fewest=fewest,
        cwd="",
        is_interactive=False,
    )


@pytest.mark.parametrize(
    ("users", "owner", "is_refused"),
    [
        (Users(), "carol", False),
        (Users(gridbridge="gb_delta"), "carol", False),
        (Users(alice="al_delta"), "carol", True),
        (Users(carol="carol", alice="al_delta"), "carol", False),
    ],
    ids=["nobody is named", "the service alone", "others", "by the same name"],
)
def test_only_people_who_are_named_may_use_a_queue(
    users: Users, owner: str, is_refused: bool
) -> None:
    assert bool(unnamed(owner, users, "gridbridge", "cluster.delta.users")) is is_refused


@pytest.mark.parametrize(
    ("limits", "job", "word"),
    [
        (QueueLimits(), a_job(pe="smp", fewest=99), ""),
        (PEOPLE, a_job(), "user_lists"),
        (PEOPLE, a_job("bob"), ""),
        (QueueLimits(environments=("smp", "mpi")), a_job(pe="m*"), ""),
        (QueueLimits(environments=("smp",)), a_job(pe="m*"), "pe_list"),
        (QueueLimits(environments=()), a_job(), ""),
        (QueueLimits(slots=4), a_job(pe="smp", fewest=4), ""),
        (QueueLimits(slots=4), a_job(pe="smp", fewest=5), "slots"),
    ],
)
def test_a_queue_refuses_what_it_says(limits: QueueLimits, job: SubmittedJob, word: str) -> None:
    refused = refusal("q", limits, job, frozenset())

    assert word in refused
    assert bool(refused) is bool(word)


def test_a_group_in_a_list_lets_its_members_in() -> None:
    assert refusal("q", PEOPLE, a_job(), frozenset({"physics"})) == ""


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
def test_who_asks_for_other_queues_never_comes_to_this_one(
    hard: tuple[tuple[str, str], ...], queues: str, is_kept: bool
) -> None:
    told = home_only_reason("transfer-beta", JobRequest(owner="carol", hard=hard, queues=queues))

    assert bool(told) is is_kept
