"""A cluster with much shorter run times than all other clusters of a campaign is a black hole."""

import pytest

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import find_black_hole_clusters
from gridbridge.model.campaigns.campaign_events import CampaignSuccessAtCluster


def record(cluster: str, *durations_s: int, is_trusted: bool = False) -> CampaignSuccessAtCluster:
    return CampaignSuccessAtCluster(
        campaign=1, cluster=cluster, successes=len(durations_s), durations_s=durations_s, is_trusted=is_trusted
    )


@pytest.mark.parametrize(
    ("there", "elsewhere", "is_one"),
    [
        ((0, 1, 1, 1, 2), (60, 70, 80), True),
        ((1, 1, 1, 1), (60, 70, 80), False),
        ((1, 1, 1, 1, 1), (60, 70), False),
        ((5, 5, 5, 5, 5), (600, 700, 800), False),
        ((4, 4, 4, 4, 4), (39, 39, 39), False),
        ((4, 4, 4, 4, 4), (41, 41, 41), True),
        ((0, 0, 0, 0, 0), (0, 0, 0), False),
        ((1, 1, 1, 90, 90), (60, 70, 80), True),
        ((0, 0, 0, 0, 0), (1, 2, 5), False),
        ((0, 0, 0, 0, 0), (6, 6, 6), True),
    ],
    ids=[
        *("black hole", "few successes", "few successes elsewhere", "median of 5 s", "a tenth of the median elsewhere"),
        *("below a tenth", "all tasks are short", "median decides", "rounded run times", "long tasks elsewhere"),
    ],
)
def test_a_black_hole_has_very_short_run_times_compared_with_other_clusters(
    there: tuple[int, ...], elsewhere: tuple[int, ...], is_one: bool
) -> None:
    """The limits are five successes, a median under 5 s, and a tenth of the other clusters' median."""
    found = find_black_hole_clusters([record("beta", *there), record("gamma", *elsewhere)])

    assert found == ({(1, "beta")} if is_one else set())


def test_a_cluster_that_the_owner_trusts_is_no_black_hole() -> None:
    there = record("beta", *[1] * 9, is_trusted=True)

    assert find_black_hole_clusters([there, record("gamma", *[60] * 9)]) == set()


def test_run_times_of_different_campaigns_are_not_compared() -> None:
    other = CampaignSuccessAtCluster(campaign=2, cluster="gamma", durations_s=(60,) * 9)

    assert find_black_hole_clusters([record("beta", *[1] * 9), other]) == set()
