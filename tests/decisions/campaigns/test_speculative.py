"""Near a campaign's end a long-running task gets up to two speculative attempts at other clusters."""

import re
from pathlib import Path
from typing import Any

import pytest

from gridbridge.decisions.campaigns.speculative_attempt_planning import (
    CampaignNearEnd,
    choose_speculative_attempts,
    is_campaign_near_end,
    run_time_percentile_95_s,
)
from gridbridge.model.campaigns.campaign_configuration_sections import LateSpeculationSection
from gridbridge.model.campaigns.jdl import CampaignType, Jdl
from gridbridge.model.campaigns.speculative_attempts import RunningTaskAttempt, SpeculativeAttemptsAtCluster

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "campaign-schedulers.md"


def live(task: int, elapsed_s: float, cluster: str = "beta", attempt: int = 1) -> RunningTaskAttempt:
    return RunningTaskAttempt(task=task, attempt=attempt, cluster=cluster, elapsed_s=elapsed_s)


def end(*tasks: RunningTaskAttempt, **known: Any) -> CampaignNearEnd:
    """Return a campaign with two unfinished tasks; its ended tasks ran for 1 to 100 s."""
    usual: dict[str, Any] = {
        "campaign": 1,
        "left": 2,
        "unsent": 0,
        "sent_s": 500.0,
        "free": {"gamma": 2, "delta": 9, "beta": 4},
        "durations_s": tuple(range(1, 101)),
        "made": {},
        "limits": LateSpeculationSection(),
    }
    return CampaignNearEnd(live=tasks, **usual | known)


def chosen(one: CampaignNearEnd) -> dict[str, tuple[int, ...]]:
    return {each.cluster: each.tasks for each in choose_speculative_attempts(one)}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(end(live(7, 96)), {"gamma": (7,)}, id="longer than 95 of 100 tasks"),
        pytest.param(end(live(7, 95)), {}, id="as long as the 95th task"),
        pytest.param(end(live(7, 0)), {}, id="no run time yet"),
        pytest.param(end(live(7, 96), live(8, 300)), {"gamma": (8, 7)}, id="longest run time first"),
        pytest.param(
            end(live(7, 96), live(8, 300), live(9, 200), left=3),
            {"gamma": (8, 9), "delta": (7,)},
            id="full clusters are skipped",
        ),
        pytest.param(end(live(7, 300, "gamma")), {"delta": (7,)}, id="not at the same cluster"),
        pytest.param(end(live(7, 300), free={"beta": 4}), {}, id="no other cluster has room"),
        pytest.param(
            end(live(7, 300), failed_at={7: ("gamma",), 8: ("delta",)}),
            {"delta": (7,)},
            id="not where the task overran",
        ),
        pytest.param(
            end(live(7, 300), live(7, 96, "gamma", 2), made={7: 1}),
            {"delta": (7,)},
            id="second copy after a long first copy",
        ),
        pytest.param(
            end(live(7, 300), live(7, 20, "gamma", 2), made={7: 1}), {}, id="no second copy beside a young copy"
        ),
        pytest.param(end(live(7, 300, "gamma", 3), made={7: 2}), {}, id="two copies are enough"),
        pytest.param(end(live(7, 300), limits=LateSpeculationSection(copies=0)), {}, id="copies disabled"),
        pytest.param(end(live(7, 300), limits=LateSpeculationSection(least_s=400)), {}, id="below the least run time"),
        pytest.param(end(live(7, 300), durations_s=(1, 2)), {}, id="few ended tasks"),
        pytest.param(end(live(7, 300), left=15), {}, id="as many unfinished tasks as slots"),
        pytest.param(end(live(7, 300), left=15, sent_s=3600), {"gamma": (7,)}, id="all tasks sent long ago"),
        pytest.param(end(live(7, 300), left=15, sent_s=3600, unsent=1), {}, id="one task is unsent"),
    ],
)
def test_long_running_tasks_get_speculative_attempts_at_the_best_free_clusters(
    one: CampaignNearEnd, expected: dict[str, tuple[int, ...]]
) -> None:
    assert chosen(one) == expected


def test_a_speculative_attempt_records_the_exceeded_run_time() -> None:
    """`gridbridge why` shows this time."""
    (one,) = choose_speculative_attempts(end(live(7, 96)))

    assert one == SpeculativeAttemptsAtCluster(campaign=1, cluster="gamma", tasks=(7,), beyond_s=95)


@pytest.mark.parametrize(
    ("durations", "expected"), [((), None), ((5, 5), None), ((1, 9, 2), 9), (range(1, 21), 19), (range(1, 101), 95)]
)
def test_the_95th_percentile_of_run_times_needs_three_ended_tasks(
    durations: tuple[float, ...], expected: float | None
) -> None:
    assert run_time_percentile_95_s(durations) == expected


@pytest.mark.parametrize(
    ("left", "unsent", "free", "sent_s", "expected"),
    [
        (3, 0, 4, 0.0, True),
        (4, 0, 4, 0.0, False),
        (3, 3, 4, 0.0, True),
        (9, 0, 0, 3600.0, True),
        (9, 0, 0, 3599.0, False),
        (9, 1, 0, 9999.0, False),
    ],
)
def test_a_campaign_is_near_its_end_with_few_unfinished_tasks_or_an_old_last_send(
    left: int, unsent: int, free: int, sent_s: float, expected: bool
) -> None:
    assert is_campaign_near_end(left, unsent, free, sent_s, LateSpeculationSection()) is expected


@pytest.mark.parametrize(
    ("type_", "is_idempotent", "expected"),
    [(CampaignType.DEFAULT, True, True), (CampaignType.DEFAULT, False, False), (CampaignType.TEST, True, False)],
)
def test_only_idempotent_default_campaigns_get_speculative_attempts(
    type_: CampaignType, is_idempotent: bool, expected: bool
) -> None:
    """Two attempts that write the same output collide; a test campaign sends one task to each cluster."""
    assert Jdl(name="n", type=type_, is_idempotent=is_idempotent).allows_speculative_attempts is expected


def test_the_example_rule_of_the_manual_works() -> None:
    texts = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module: dict[str, Any] = {}
    exec(texts[1], module)

    assert module["choose_speculative_attempts"](end(live(7, 4000))) == (
        SpeculativeAttemptsAtCluster(campaign=1, cluster="gamma", tasks=(7,), beyond_s=3600),
    )
