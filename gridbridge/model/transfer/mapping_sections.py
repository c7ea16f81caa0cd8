"""What gridbridge.toml can say of a remote cluster's mapping: [map.CLUSTER.KIND.NAME].

A kind of rule is a class here and a key is a field, as in `sections`. `mapping` has the
form in which the programs use them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from gridbridge.model import amounts
from gridbridge.model.settings import ANY_TEXT, OBJECT_NAME, TextFormat, setting
from gridbridge.model.transfer import request_rules

THERE = TextFormat(
    holds=lambda name: not name or OBJECT_NAME.holds(name),
    right=f"{OBJECT_NAME.right}; empty for the same name",
)
RESOURCE_THERE = TextFormat(
    holds=lambda name: THERE.holds(name.removeprefix("/")),
    right=f"{OBJECT_NAME.right}; of OAR, / and the name of a level of -l; empty for the same name",
)
SPREAD = TextFormat(
    holds=lambda text: text in ("", *request_rules.SPREADS) or request_rules.is_fixed(text),
    right=f"{', '.join(request_rules.SPREADS)}, or so many a node;"
    f" empty for {request_rules.PE_SLOTS}",
)
ASKED_FOR = TextFormat(holds=THERE.holds, right=f"{OBJECT_NAME.right}; empty for none")
RULE_NAME = TextFormat(  # of a project and a queue, which may have a rule for all
    holds=lambda name: name == request_rules.ANY or OBJECT_NAME.holds(name),
    right=f'{OBJECT_NAME.right}; or "*"',
)
AMOUNT = TextFormat(
    holds=re.compile(r"[!-+\x2d-~]*").fullmatch, right="one value as qsub -l takes it"
)


class AmountUnit(StrEnum):
    """The unit in which an amount is written there."""

    AS_IT_IS = ""
    KILO = "k"
    KIBI = "K"
    MEGA = "m"
    MEBI = "M"
    GIGA = "g"
    GIBI = "G"
    TERA = "t"
    TEBI = "T"
    SECONDS = "s"
    MINUTES = "min"
    HOURS = "h"
    CLOCK = amounts.CLOCK


class Relation(StrEnum):
    """How the value of a property of OAR compares to what was asked for."""

    AS_USUAL = ""
    EQUAL = "="
    AT_LEAST = ">="
    AT_MOST = "<="
    MORE = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule:
    """What becomes of a resource that a job asks for with -l."""

    to: str = setting("", "its name there", form=RESOURCE_THERE)
    scale: float = setting(1.0, "the factor of the amount", "", 1e-06, 1000000.0)
    unit: AmountUnit = setting(AmountUnit.AS_IT_IS, "the unit in which the amount is written there")
    relation: Relation = setting(Relation.AS_USUAL, "of OAR: how a property compares; empty is =")
    default: str = setting("", "the value that is asked for when a job asks for none", form=AMOUNT)
    drop: bool = setting(False, "whether it is left out there")
    require: bool = setting(False, "whether a job has to ask for it")
    reject: str = setting("", "why no job that asks for it can go there", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeRule:
    """What becomes of a parallel environment."""

    to: str = setting("", "its name there", form=THERE)
    scale: float = setting(1.0, "the factor of the granted slots", "", 0.001, 1000.0)
    spread: str = setting("", "of OAR: how slots lie on nodes (allocation_rule)", form=SPREAD)
    reject: str = setting("", "why no job that asks for it can go there", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRule:
    """What becomes of a project; the rule for all holds for jobs without one, too."""

    to: str = setting("", "its name there", form=THERE)
    drop: bool = setting(False, "whether jobs have no project there")
    reject: str = setting("", "why none of its jobs can go there", form=ANY_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRule:
    """What becomes of a queue that a job asks for with -q; without a rule it is for home only."""

    to: str = setting("", "the queue that is asked for there", form=ASKED_FOR)
    reject: str = setting("", "why no job that asks for it can go there", form=ANY_TEXT)


AnyRule: TypeAlias = ResourceRule | PeRule | ProjectRule | QueueRule
Rules: TypeAlias = Mapping[tuple[str, str], AnyRule]  # by kind and name at home

KINDS: Mapping[str, tuple[type[AnyRule], TextFormat]] = MappingProxyType(
    {
        request_rules.RESOURCE: (ResourceRule, OBJECT_NAME),
        request_rules.PE: (PeRule, OBJECT_NAME),
        request_rules.PROJECT: (ProjectRule, RULE_NAME),
        request_rules.QUEUE: (QueueRule, RULE_NAME),
    }
)
