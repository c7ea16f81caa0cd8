"""How often a cluster is asked that takes its time to answer."""

import pytest

from gridbridge.model.policy import Poller
from gridbridge.services.observer import stretched


@pytest.mark.parametrize(
    ("usual_s", "expected_s"), [(0.01, 5), (0.5, 10), (2.0, 15)], ids=["quick", "slow", "very slow"]
)
def test_an_interval_grows_with_the_answers_but_closes_no_queue(
    usual_s: float, expected_s: float
) -> None:
    """A twentieth of the time, but values are stale after 30 s."""
    assert stretched(usual_s, Poller(interval_s=5, query_share=0.05, stale_s=30)) == expected_s


def test_an_interval_is_never_shorter_than_configured() -> None:
    assert stretched(9.0, Poller(interval_s=25, query_share=0.05, stale_s=30)) == 25
