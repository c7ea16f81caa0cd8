"""Each cluster of a campaign that waits has a reason with the numbers of the decision."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.campaigns.why import reasons
from gridbridge.model.campaigns.campaign import Array, ArrayState, Campaign, CampaignState
from gridbridge.model.campaigns.events import Changes, Code, Event, Kind
from gridbridge.model.campaigns.jdl import AtCluster, Jdl, Type
from gridbridge.model.campaigns.jobratio import Ratio
from gridbridge.model.campaigns.plan import KeptOff, Plan, Room, Seen, Send, There
from gridbridge.model.campaigns.reasons import Cause, Order, Reason
from gridbridge.model.campaigns.sharing import ShareBy, Sharing
from gridbridge.model.job import ArrayLimits

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


SENT = (Send(campaign=1, cluster="beta", tasks=2),)


def bar(code: Code, until: datetime | None, **other: object) -> Event:
    """Return an open event that closes beta to campaign 1."""
    known: dict[str, object] = {"campaign": 1, "cluster": "beta", "opened_at": NOON}
    kind = Kind.CAMPAIGN
    return Event(kind=kind, code=code, last_at=NOON, until=until, **(known | other))  # type: ignore[arg-type]


def stressed(stress: float | None) -> dict[str, Room]:
    return {"beta": Room(free_slots=4, is_stressed=True, stress=stress, stress_limit=0.8)}


HOUR = NOON + timedelta(hours=1)
RATIO = Ratio(campaign=1, cluster="beta", ratio=0.25, free=4, submitted=0)
ONE_WAITS = (There(campaign=1, cluster="beta", waiting=1, listed=1, fresh=1),)
THREE_WAIT = (There(campaign=2, cluster="beta", waiting=3, listed=3),)
ONE = AtCluster(exec_file="run")
LIMITED = {"beta": Room(free_slots=4, limits=ArrayLimits(of_person=1))}
OURS = Array(
    campaign=1,
    number=1,
    cluster="beta",
    state=ArrayState.RELEASED,
    size=1,
    intended_at=NOON,
)
EIGHT = {"beta": Room(free_slots=4, max_slots=8)}


@pytest.mark.parametrize(
    ("rows", "sends", "cause", "numbers"),
    [
        (seen(campaign(WISH)), SENT, Cause.SENT, {"sent": 2}),
        (seen(campaign(WISH), None), (), Cause.NO_ANSWER, {"free_slots": 0, "job_ratio": None}),
        (
            seen(campaign(WISH), None, dropped=frozenset({"beta"})),
            (),
            Cause.DROPPED,
            {"free_slots": 0, "job_ratio": None},
        ),
        (seen(campaign(WISH), 1), (), Cause.FULL, {"free_slots": 1}),
        (
            seen(campaign(WISH), room={"beta": Room(free_slots=1, slots=1)}),
            (),
            Cause.TOO_LARGE,
            {"free_slots": 1, "all_slots": 1},
        ),
        (
            seen(campaign(WISH), room=LIMITED, arrays=(OURS,)),
            (),
            Cause.MAX_ARRAYS,
            {},
        ),
        (
            seen(campaign(WISH), there=THERE),
            (),
            Cause.MAX_JOBS,
            {"listed": 3, "waiting": 1, "waiting_there": 1},
        ),
        (seen(campaign(WISH)), (), Cause.OTHERS_FIRST, {}),
        (
            seen(campaign(WISH, Type.TEST), tried={1: frozenset({"beta"})}),
            (),
            Cause.TRIED,
            {"job_ratio": None},
        ),
        (
            seen(campaign(WISH), events=(bar(Code.BLACKLIST, None), bar(Code.SUBMIT_JOB, HOUR))),
            (),
            Cause.CLOSED,
            {"code": Code.BLACKLIST},
        ),
        (
            seen(campaign(WISH), events=(bar(Code.SUBMIT_JOB, HOUR),), at=NOON),
            (),
            Cause.CLOSED,
            {"code": Code.SUBMIT_JOB, "until": HOUR},
        ),
        (
            seen(campaign(WISH), room=stressed(0.9)),
            (),
            Cause.STRESSED,
            {"stress": 0.9, "stress_limit": 0.8},
        ),
        (seen(campaign(WISH), room=stressed(None)), (), Cause.STRESSED, {"stress_limit": 0.8}),
        (
            seen(campaign(WISH), there=THREE_WAIT),
            (),
            Cause.WAITING_THERE,
            {"waiting_there": 3},
        ),
        (
            seen(campaign(ONE), room=EIGHT, there=ONE_WAITS, ratios=(RATIO,)),
            (),
            Cause.JOB_RATIO,
            {"slots": 1, "max_jobs": 0, "listed": 1, "waiting": 1, "waiting_there": 1}
            | {"job_ratio": 0.25},
        ),
        (
            seen(campaign(WISH), waiting={1: 2}),
            (Send(campaign=1, cluster="gamma", tasks=2),),
            Cause.ELSEWHERE,
            {},
        ),
        (
            seen(campaign(WISH), room={"beta": Room(free_slots=4, is_drained=True)}),
            (),
            Cause.DRAINED,
            {},
        ),
        (
            seen(campaign(WISH), kept_off={1: (KeptOff(tasks=5, never=("beta",)),)}),
            (),
            Cause.KEPT_OFF,
            {},
        ),
    ],
    ids=[
        *(
            "sent",
            "no answer",
            "dropped",
            "full",
            "too large",
            "arrays",
            "max_jobs",
            "others",
            "tried",
            "blacklist",
            "probed later",
        ),
        *("stressed", "stress unknown", "others wait", "ratio", "elsewhere", "drained", "kept off"),
    ],
)
def test_a_reason_is_one_of_a_closed_set(
    rows: Seen, sends: tuple[Send, ...], cause: Cause, numbers: dict[str, object]
) -> None:
    """With the numbers that led to it."""
    (told,) = reasons(rows, Plan(sends=sends))

    usual = {"free_slots": 4, "slots": 2, "max_jobs": 3, "job_ratio": 0.5}
    expected = Reason(campaign=1, cluster="beta", cause=cause, **(usual | numbers))  # type: ignore[arg-type]
    assert told == expected


def test_an_event_of_the_same_cycle_closes_a_cluster() -> None:
    """The decision has looked at it."""
    changes = Changes(events=(bar(Code.SINK, None),))

    (told,) = reasons(seen(campaign(WISH)), Plan(changes=changes))

    assert (told.cause, told.code) == (Cause.CLOSED, Code.SINK)


@pytest.mark.parametrize(
    ("type_", "affinity", "sharing", "expected"),
    [
        (Type.TEST, "", Sharing(), (Order.TEST, 0, 0)),
        (Type.DEFAULT, "bob", Sharing(), (Order.AFFINITY, 0, 0)),
        (
            Type.DEFAULT,
            "bob alice",
            Sharing(by=ShareBy.USER, used_s={"alice": 9.0, "bob": 2.0}),
            (Order.SHARE, 9.0, 2.0),
        ),
        (Type.DEFAULT, "", Sharing(priorities="bob=5 alice=1"), (Order.PRIORITY, 1, 5)),
        (Type.DEFAULT, "", Sharing(), (Order.AGE, 0, 0)),
    ],
    ids=["test", "affinity", "share", "priority", "age"],
)
def test_who_was_served_before_is_named_and_why(
    type_: Type, affinity: str, sharing: Sharing, expected: tuple[Order, float, float]
) -> None:
    """With the numbers that decided."""
    ours = campaign(ONE)
    bobs = replace(campaign(ONE, type_), number=0, owner="bob")
    room = {"beta": Room(free_slots=4, affinity=affinity)}
    rows = replace(seen(ours, room=room, sharing=sharing), campaigns=(bobs, ours))

    (told,) = reasons(rows, Plan(sends=(Send(campaign=0, cluster="beta", tasks=4),)))

    assert (told.cause, told.before) == (Cause.OTHERS_FIRST, (0,))
    assert (told.order, told.own, told.theirs) == expected


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
