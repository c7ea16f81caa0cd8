"""A sentence for each cause, and which causes count against a cluster."""

from collections.abc import Mapping

from gridbridge.model.message import Cause

OF_THE_CLUSTER = frozenset(
    {Cause.UNREACHED, Cause.DENIED, Cause.BLOCKED, Cause.VANISHED, Cause.LOST, Cause.HOST}
)
_WORDS: Mapping[str, str] = {
    Cause.UNREACHED: "{} did not take them",
    Cause.DENIED: "{} takes no jobs from here",
    Cause.BLOCKED: "{} put them into the error state",
    Cause.VANISHED: "{} neither lists nor accounts for them",
    Cause.DISPUTED: "their records at {} tell different ends",
    Cause.LOST: "nobody at {} saw their ends",
    Cause.HOST: "a host of {} could not begin them",
}


def blame(cause: str, cluster: str) -> str:
    """Say in our own words what a cluster did to jobs that failed there."""
    return _WORDS.get(cause, "they failed at {}").format(cluster)
