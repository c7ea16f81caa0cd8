"""Value types that an admission rule gets and returns; authors of rules import this module and `jdl`."""

from collections.abc import Callable
from dataclasses import dataclass

from gridbridge.model.campaigns.jdl import Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignForAdmission:
    user: str
    groups: frozenset[str]
    tasks: int
    jdl: Jdl


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRefusal:
    reason: str


Judge = Callable[[CampaignForAdmission], object]  # returns a changed Jdl, an AdmissionRefusal, or None to accept


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAdmissionRule:
    """An admission rule, named FILE:FUNCTION."""

    name: str
    judge: Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRuleChanges:
    rule: str
    changes: tuple[str, ...]  # of the form `KEY: OLD -> NEW`


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignAdmissionResult:
    jdl: Jdl
    fired: tuple[AdmissionRuleChanges, ...] = ()
    refusal: str = ""
