"""Value types that an admission rule gets and returns; authors of rules import this module and `jdl`."""

from collections.abc import Callable
from dataclasses import dataclass

from gridbridge.model.campaigns.jdl import Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignForAdmission:
    """A submitted campaign, before admission rules accept or refuse the campaign."""

    user: str
    groups: frozenset[str]
    tasks: int
    jdl: Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRefusal:
    """The answer of an admission rule that refuses a campaign."""

    reason: str


Judge = Callable[[CampaignForAdmission], object]  # returns a changed Jdl, an AdmissionRefusal, or None to accept


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAdmissionRule:
    """An admission rule, named FILE:FUNCTION."""

    name: str
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRuleChanges:
    """The changes that one admission rule made to a campaign."""

    rule: str
    changes: tuple[str, ...]  # each as text `KEY: OLD -> NEW`


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAdmissionResult:
    """A campaign's JDL after all admission rules, or the reason why a rule refused the campaign."""

    jdl: Jdl
    fired: tuple[AdmissionRuleChanges, ...] = ()
    refusal: str = ""
