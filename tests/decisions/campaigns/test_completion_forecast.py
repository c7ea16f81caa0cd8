"""The forecast of a campaign's end has the times P50 and P90, or is unknown."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.campaign_progress_and_forecast import estimate_survival_curve, forecast_campaign_end
from gridbridge.model.campaigns.campaign_end_forecast import (
    CampaignForecast,
    CampaignProgressForForecast,
    CampaignRunTimesAtCluster,
)

UNKNOWN = CampaignForecast()


def progress(left: int, *services: CampaignRunTimesAtCluster) -> CampaignProgressForForecast:
    return CampaignProgressForForecast(left=left, services=services)


def beta(*durations_s: float, elapsed_s: tuple[float, ...] = ()) -> CampaignRunTimesAtCluster:
    return CampaignRunTimesAtCluster(cluster="beta", durations_s=durations_s, elapsed_s=elapsed_s)


def test_tasks_that_outlive_all_ended_tasks_raise_p90_far_above_their_elapsed_time() -> None:
    told = forecast_campaign_end(progress(0, beta(*[60.0] * 70, elapsed_s=(200.0,) * 30)))

    assert told.p50_s is not None
    assert told.p90_s is not None
    assert told.p50_s < 500 < 700 < told.p90_s


@pytest.mark.parametrize(
    "seen",
    [
        progress(10),
        progress(10, beta(elapsed_s=(60.0, 5.0))),  # none has ended
        progress(10, beta(60.0, 61.0)),  # none runs
    ],
)
def test_a_forecast_without_ended_or_running_tasks_is_unknown(seen: CampaignProgressForForecast) -> None:
    """CiGri gives the present time in this case."""
    assert forecast_campaign_end(seen) == UNKNOWN


def test_tasks_of_equal_length_end_after_the_remaining_rounds() -> None:
    told = forecast_campaign_end(progress(90, beta(*[60.0] * 40, elapsed_s=(30.0,) * 10)))

    assert told.throughput == pytest.approx(1 / 6, rel=0.05)
    assert told.p50_s == pytest.approx(570, rel=0.1)
    assert told.p90_s is not None
    assert told.p50_s < told.p90_s < 800


@pytest.mark.parametrize("left", [0, 1, 5, 50])
@pytest.mark.parametrize("running", [100, 2000, 20_000])
def test_few_remaining_tasks_of_equal_length_end_within_two_rounds(running: int, left: int) -> None:
    ended_s = tuple(600.0 + number % 3 for number in range(500))
    elapsed_s = tuple(10 + 580 * number / running for number in range(running))

    told = forecast_campaign_end(progress(left, beta(*ended_s, elapsed_s=elapsed_s)))

    assert told.p50_s is not None
    assert told.p90_s is not None
    assert 580 < told.p50_s <= told.p90_s < 1400


def test_p50_follows_from_the_observed_rate_of_the_last_hour() -> None:
    """CiGri's throughput method: 120 tasks ended in an hour, so 95 remaining tasks need 2850 s."""
    hour = {"durations_s": (60.0,) * 120, "elapsed_s": (30.0,) * 10}
    seen = CampaignRunTimesAtCluster(cluster="beta", ended=120, watched_s=3600.0, **hour)
    told = forecast_campaign_end(progress(90, seen))

    assert told.throughput == pytest.approx(1 / 30)
    assert told.p50_s == pytest.approx(2850, rel=0.1)


def test_running_tasks_correct_the_run_times_of_short_tasks_that_ended_first() -> None:
    curve = estimate_survival_curve([10.0] * 3, [30.0] * 7)

    assert curve.share_running_longer(20.0) == pytest.approx(0.7)
    assert curve.mean_run_time > 25


Length = Callable[[Random], float]
LENGTHS: dict[str, Length] = {
    "alike": lambda random: random.uniform(290, 310),
    "uniform": lambda random: random.uniform(30, 900),
    "exponential": lambda random: random.expovariate(1 / 300),
    "log-normal": lambda random: random.lognormvariate(5.3, 0.8),
    "two kinds": lambda random: random.gauss(60, 5) if random.random() < 0.7 else 900,
}
CLUSTERS = {"beta": (20, 1.0), "gamma": (8, 0.6), "delta": (4, 1.7)}  # slots, speed


def run(random: Random, length: Length, tasks: int, halt: float) -> tuple[CampaignProgressForForecast, float]:
    """Simulate a campaign; return the progress when a share of the tasks has ended, and the remaining time."""
    running: list[tuple[float, float, str]] = []  # end, start, cluster
    lengths = [max(1.0, length(random)) for _ in range(tasks)]
    ended: list[tuple[float, float, str]] = []
    seen: CampaignProgressForForecast | None = None
    seen_s = now = 0.0
    free = [name for name, (slots, _) in CLUSTERS.items() for _ in range(slots)]
    while lengths or running:
        while lengths and free:
            cluster = free.pop()
            heappush(running, (now + lengths.pop() / CLUSTERS[cluster][1], now, cluster))
        if seen is None and len(ended) >= halt * tasks:
            seen, seen_s = _seen(now, len(lengths), running, ended), now
        now, began, cluster = heappop(running)
        free.append(cluster)
        ended.append((now - began, now, cluster))
    return seen, now - seen_s


def _seen(
    now: float, left: int, running: list[tuple[float, float, str]], ended: list[tuple[float, float, str]]
) -> CampaignProgressForForecast:
    return CampaignProgressForForecast(
        left=left,
        services=tuple(
            CampaignRunTimesAtCluster(
                cluster=name,
                durations_s=tuple(took for took, _, at in ended[-200:] if at == name),
                elapsed_s=tuple(now - began for _, began, at in running if at == name),
            )
            for name in CLUSTERS
        ),
    )


def covered(seed: int, campaigns: int) -> Iterator[tuple[bool, bool]]:
    random = Random(seed)
    for number in range(campaigns):
        length = list(LENGTHS.values())[number % len(LENGTHS)]
        tasks, halt = random.choice([60, 200, 600]), random.uniform(0.1, 0.9)
        seen, took_s = run(random, length, tasks, halt)
        told = forecast_campaign_end(seen)
        assert told.p50_s is not None
        assert told.p90_s is not None
        yield took_s <= told.p50_s, took_s <= told.p90_s


def test_p90_holds_for_about_nine_of_ten_simulated_campaigns() -> None:
    by_50, by_90 = zip(*covered(seed=1, campaigns=300), strict=True)

    assert 0.80 <= sum(by_90) / len(by_90) <= 0.97
    assert 0.50 <= sum(by_50) / len(by_50) <= 0.80


@given(
    left=st.integers(0, 10**6),
    durations_s=st.lists(st.floats(0, 10**6), max_size=30),
    elapsed_s=st.lists(st.floats(0, 10**6), max_size=30),
)
def test_forecast_times_are_in_the_future_and_p90_is_not_before_p50(
    left: int, durations_s: list[float], elapsed_s: list[float]
) -> None:
    told = forecast_campaign_end(progress(left, beta(*durations_s, elapsed_s=tuple(elapsed_s))))

    if told.p50_s is not None:
        assert told.p90_s is not None
        assert 0 <= told.p50_s <= told.p90_s
