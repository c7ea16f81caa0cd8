"""Free slots are filled campaign by campaign, and none is given twice."""

from collections.abc import Mapping
from datetime import UTC, datetime

from gridbridge.decisions.campaigns import matching
from gridbridge.decisions.campaigns.cycle import plan, sentences
from gridbridge.decisions.campaigns.predictor import predict
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Jdl, Type
from gridbridge.model.campaigns.plan import Room, Seen, Send, There

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def campaign(
    number: int,
    clusters: Mapping[str, AtCluster],
    type_: Type = Type.DEFAULT,
    state: CampaignState = CampaignState.IN_TREATMENT,
) -> Campaign:
    """Return a campaign of a hundred tasks."""
    return Campaign(
        number=number,
        uid=1000,
        owner="alice",
        state=state,
        submitted_at=NOON,
        tasks=100,
        digest="",
        jdl=Jdl(name="sweep", type=type_, clusters=clusters),
    )


def at(slots: int = 1, max_jobs: int = 0) -> AtCluster:
    """Return how tasks run at a cluster."""
    return AtCluster(exec_file="run", slots=slots, max_jobs=max_jobs)


def sends(seen: Seen) -> tuple[Send, ...]:
    """Predict, and match."""
    return matching.sends(seen, predict(seen))


def room(**free: int) -> dict[str, Room]:
    """Return the free slots of clusters."""
    return {name: Room(free_slots=slots) for name, slots in free.items()}


def test_the_first_campaign_is_served_first() -> None:
    """The second gets what the first leaves: first come, first served."""
    first, second = campaign(1, {"beta": at()}), campaign(2, {"beta": at(slots=2)})

    seen = Seen(
        campaigns=(first, second),
        waiting={1: 3, 2: 9},
        arrays=(),
        max_tasks=100,
        room=room(beta=10),
    )

    assert sends(seen) == (
        Send(campaign=1, cluster="beta", tasks=3),
        Send(campaign=2, cluster="beta", tasks=3),
    )


def test_tasks_that_wait_there_already_have_their_slots() -> None:
    """Else each cycle would send the same slots' worth once more."""
    one = campaign(1, {"beta": at(), "gamma": at()})

    seen = Seen(
        campaigns=(one,),
        waiting={1: 50},
        arrays=(),
        max_tasks=100,
        room=room(beta=4, gamma=2),
        there=(There(campaign=1, cluster="beta", waiting=4, listed=4),),
    )

    assert sends(seen) == (Send(campaign=1, cluster="gamma", tasks=2),)


def test_a_cluster_that_does_not_answer_gets_nothing() -> None:
    """Nor does one without a free slot."""
    one = campaign(1, {"beta": at(), "gamma": at()})

    assert (
        sends(Seen(campaigns=(one,), waiting={1: 5}, arrays=(), max_tasks=100, room=room(gamma=0)))
        == ()
    )


def test_a_campaign_keeps_its_own_limit() -> None:
    """max_jobs counts what runs there, too."""
    one = campaign(1, {"beta": at(max_jobs=5)})

    seen = Seen(
        campaigns=(one,),
        waiting={1: 50},
        arrays=(),
        max_tasks=100,
        room=room(beta=10),
        there=(There(campaign=1, cluster="beta", waiting=0, listed=3),),
    )

    assert sends(seen) == (Send(campaign=1, cluster="beta", tasks=2),)


def test_a_test_campaign_goes_first_and_sends_one_task_to_each_cluster_ever() -> None:
    """However many tasks it has, and however much room there is."""
    usual = campaign(1, {"beta": at()})
    test = campaign(2, {"beta": at(), "gamma": at()}, Type.TEST)

    seen = Seen(
        campaigns=(usual, test),
        waiting={1: 50, 2: 2},
        arrays=(),
        max_tasks=100,
        room=room(beta=3, gamma=3),
        tried={2: frozenset({"gamma"})},
    )

    assert sends(seen) == (
        Send(campaign=2, cluster="beta", tasks=1),
        Send(campaign=1, cluster="beta", tasks=2),
    )


def test_a_paused_campaign_sends_nothing() -> None:
    """And it does not end."""
    one = campaign(1, {"beta": at()}, state=CampaignState.PAUSED)
    seen = Seen(campaigns=(one,), waiting={1: 5}, arrays=(), max_tasks=100, room=room(beta=9))

    assert plan(seen).sends == ()
    assert plan(seen).finished == ()


def test_a_campaign_has_ended_once_nothing_of_it_waits_or_lives() -> None:
    """A cycle tells so in one sentence."""
    one = campaign(1, {"beta": at()})

    decided = plan(Seen(campaigns=(one,), waiting={}, arrays=(), max_tasks=100, room={}))

    assert decided.finished == (1,)
    assert sentences(decided) == ["campaign 1 has ended"]
