"""Admission rules: what one looks at, and what it says.

A rule is a function of a site's own file. Whoever writes one imports this module and the JDL's.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gridbridge.model.campaigns.jdl import Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCandidate:
    """A campaign that somebody brings."""

    user: str
    groups: frozenset[str]
    tasks: int
    jdl: Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRefusal:
    """A rule's answer: the campaign is not taken."""

    reason: str


Judge = Callable[
    [CampaignCandidate], object
]  # right is another Jdl, a Refusal, or None: nothing to say


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """A rule with its name: FILE:FUNCTION."""

    name: str
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class FiredRule:
    """A rule that changed a campaign, and how."""

    rule: str
    changes: tuple[str, ...]  # KEY: BEFORE -> AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionResult:
    """What the rules make of a campaign; a refused one has a reason."""

    jdl: Jdl
    fired: tuple[FiredRule, ...] = ()
    refusal: str = ""
