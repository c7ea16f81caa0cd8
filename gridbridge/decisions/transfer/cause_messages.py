"""A sentence for each cause, and which causes count against a cluster."""

from collections.abc import Mapping

from gridbridge.model.message import FailureCause

OF_THE_CLUSTER = frozenset(
    {
        FailureCause.UNREACHED,
        FailureCause.DENIED,
        FailureCause.BLOCKED,
        FailureCause.VANISHED,
        FailureCause.LOST,
        FailureCause.HOST,
    }
)
_WORDS: Mapping[str, str] = {
    FailureCause.UNREACHED: "{} did not take them",
    FailureCause.DENIED: "{} takes no jobs from here",
    FailureCause.BLOCKED: "{} put them into the error state",
    FailureCause.VANISHED: "{} neither lists nor accounts for them",
    FailureCause.DISPUTED: "their records at {} tell different ends",
    FailureCause.LOST: "nobody at {} saw their ends",
    FailureCause.HOST: "a host of {} could not begin them",
}


def blame(cause: str, cluster: str) -> str:
    """Say in our own words what a cluster did to jobs that failed there."""
    return _WORDS.get(cause, "they failed at {}").format(cluster)
