"""A plan as people and programs are told of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalReport:
    """A job or a host, one of the two, and why nothing is done about it."""

    job: int = 0
    host: str = ""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlanReport:
    """What a round does, or would do."""

    add: int
    pool: str | None
    remove: tuple[str, ...]
    sentence: str
    refused: tuple[RefusalReport, ...]
    unseen: tuple[str, ...] = ()  # what a round sees and this account does not
