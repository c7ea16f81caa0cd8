"""Parses attributes of Grid Engine objects as qconf(1) prints them; a value may differ between hosts."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

from gridbridge.model.fixed_paths import BEST_EFFORT

QconfSettings = Mapping[str, str]  # maps an attribute of a Grid Engine object to its value, as qconf(1) prints it

PARTS = re.compile(r"\[([^=\]]+)=([^\]]*)\]")  # `[HOST=VALUE]` or `[@GROUP=VALUE]` (queue_conf(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class QconfValuesByHost:
    """The default value of an attribute and its values at some hosts, as in `1,[@large=8],[n1=2]`."""

    usual: str = ""
    others: tuple[tuple[str, str], ...] = ()  # pairs (host or host group, value)

    def value_at_host(self, host: str, groups: Container[str]) -> str:
        """Return a host's value: that of the host itself, else of its group, else the default.

        A list at a host replaces the default list (queue_conf(5)).
        """
        own = (value for where, value in self.others if where.lower() == host.lower())
        shared = (value for where, value in self.others if where in groups)
        return next(own, next(shared, self.usual))


def parse_qconf_values_by_host(text: str) -> QconfValuesByHost:
    usual = text.partition("[")[0].rstrip(", ")
    by_host = tuple((where.strip(), value.strip()) for where, value in PARTS.findall(text))
    return QconfValuesByHost(usual=usual, others=by_host)


def qconf_queue_value_by_host(text: str) -> tuple[tuple[str, str], ...]:
    """Return a queue attribute as pairs (suffix, value): '' is the default, else `@HOST` or `@@GROUP`."""
    values = parse_qconf_values_by_host(text)
    return (("", values.usual), *((f"@{where}", value) for where, value in values.others))


def parse_qconf_pairs_by_host(text: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """Parse a queue attribute such as `a=1,b=2,[n1=a=3]` into pairs (suffix to the queue's name, values)."""
    return tuple((where, parse_qconf_pairs(value)) for where, value in qconf_queue_value_by_host(text))


def parse_qconf_pairs(value: str) -> dict[str, str]:
    """Parse a list of pairs such as `a=1,b=2`, or NONE; values at single hosts are left out."""
    plain = value.partition(",[")[0]
    parts = (part.partition("=") for part in plain.replace(" ", "").split(","))
    return {name: text for name, _, text in parts if name and name.upper() != "NONE"}


def parse_qconf_words(value: str) -> tuple[str, ...]:
    """Parse a list of words such as `a b` or `a,b`, or NONE; values at single hosts are left out."""
    parts = value.partition(",[")[0].replace(",", " ").split()
    return tuple(part for part in parts if part.upper() != "NONE")


def is_true_in_qconf(value: str) -> bool:
    """Say whether a Grid Engine BOOL is true: `true` or `1`, in upper or lower case."""
    return value.lower() in {"true", "1"}


def is_transfer_queue(queue: QconfSettings) -> bool:
    """Say whether a queue is a transfer queue, because it offers remote=TRUE."""
    return is_true_in_qconf(parse_qconf_pairs(queue.get("complex_values", "")).get("remote", ""))


def is_besteffort_queue(queue: QconfSettings) -> bool:
    """Say whether a queue is a best-effort queue, because it offers gb_besteffort=TRUE."""
    return is_true_in_qconf(parse_qconf_pairs(queue.get("complex_values", "")).get(BEST_EFFORT, ""))
