"""Each cluster of a campaign that waits has a reason with the numbers of the decision."""

from datetime import UTC, datetime

import pytest

from gridbridge.decisions.campaigns.why import reasons
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Jdl, Type
from gridbridge.model.campaigns.plan import Plan, Room, Seen, Send, There
from gridbridge.model.campaigns.reasons import Cause, Reason

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def campaign(wish: AtCluster, type_: Type = Type.DEFAULT, **other: object) -> Campaign:
    """Return campaign 1, which beta may run."""
    known: dict[str, object] = {"state": CampaignState.IN_TREATMENT}
    jdl = Jdl(name="sweep", type=type_, clusters={"beta": wish})
    return Campaign(
        number=1,
        uid=1,
        owner="alice",
        submitted_at=NOON,
        tasks=9,
        digest="",
        jdl=jdl,
        **(known | other),  # type: ignore[arg-type]
    )


def seen(one: Campaign, free: int | None = 4, **other: object) -> Seen:
    """Return what a cycle sees of it."""
    room = {} if free is None else {"beta": Room(free_slots=free)}
    known: dict[str, object] = {"waiting": {1: 5}, "arrays": (), "room": room, "max_tasks": 9}
    return Seen(campaigns=(one,), **(known | other))  # type: ignore[arg-type]


WISH = AtCluster(exec_file="run", slots=2, max_jobs=3)
THERE = (There(campaign=1, cluster="beta", waiting=1, listed=3),)


@pytest.mark.parametrize(
    ("rows", "sends", "cause"),
    [
        (seen(campaign(WISH)), (Send(campaign=1, cluster="beta", tasks=2),), Cause.SENT),
        (seen(campaign(WISH), None), (), Cause.NO_ANSWER),
        (seen(campaign(WISH), 1), (), Cause.FULL),
        (seen(campaign(WISH), there=THERE), (), Cause.MAX_JOBS),
        (seen(campaign(WISH)), (), Cause.OTHERS_FIRST),
        (
            seen(campaign(WISH, Type.TEST), tried={1: frozenset({"beta"})}),
            (),
            Cause.TRIED,
        ),
    ],
    ids=lambda value: value.value if isinstance(value, Cause) else "",
)
def test_a_reason_is_one_of_a_closed_set(rows: Seen, sends: tuple[Send, ...], cause: Cause) -> None:
    """With the numbers that led to it."""
    (told,) = reasons(rows, Plan(sends=sends))

    assert told == Reason(
        campaign=1,
        cluster="beta",
        cause=cause,
        sent=2 if sends else 0,
        free_slots=rows.room["beta"].free_slots if rows.room else 0,
        slots=2,
        listed=3 if rows.there else 0,
        waiting=1 if rows.there else 0,
        max_jobs=3,
    )


@pytest.mark.parametrize(
    "rows",
    [
        seen(campaign(WISH), waiting={}),
        seen(campaign(WISH, state=CampaignState.PAUSED)),
        seen(campaign(WISH, state=CampaignState.CANCELLED)),
    ],
)
def test_what_waits_for_nothing_has_no_reason(rows: Seen) -> None:
    """Its state says enough."""
    assert reasons(rows, Plan()) == ()
