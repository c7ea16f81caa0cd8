"""Values of admission rules: the campaign that a rule judges, and the rule's answer.

A rule is a function in a Python file of the site. Authors of rules import this module and `jdl`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gridbridge.model.campaigns.jdl import Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCandidate:
    """A submitted campaign that admission rules judge before it is accepted."""

    user: str
    groups: frozenset[str]
    tasks: int
    jdl: Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRefusal:
    """An admission rule's answer that refuses the campaign."""

    reason: str


Judge = Callable[
    [CampaignCandidate], object
]  # returns a changed Jdl, an AdmissionRefusal, or None to accept the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAdmissionRule:
    """An admission rule with its name, FILE:FUNCTION."""

    name: str
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRuleChanges:
    """An admission rule that changed a campaign, with the changes that it made."""

    rule: str
    changes: tuple[str, ...]  # KEY: BEFORE -> AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAdmissionResult:
    """The campaign after all admission rules, or the reason of its refusal."""

    jdl: Jdl
    fired: tuple[AdmissionRuleChanges, ...] = ()
    refusal: str = ""
