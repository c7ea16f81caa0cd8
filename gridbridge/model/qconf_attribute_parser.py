"""Parses attributes of Grid Engine objects in the output of qconf(1), with values that differ by host."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

from gridbridge.model.fixed_paths import BEST_EFFORT

QconfSettings = Mapping[str, str]  # value of each attribute of an object in qconf(1)

PARTS = re.compile(r"\[([^=\]]+)=([^\]]*)\]")  # values for hosts or host groups (queue_conf(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class QconfValuesByHost:
    """An attribute's default value and its values for hosts, as in `1,[@large=8],[n1=2]`."""

    usual: str = ""
    others: tuple[tuple[str, str], ...] = ()  # pairs of host or host group, and value

    def on(self, host: str, groups: Container[str]) -> str:
        """Return an attribute's value for a host: the host's value, else its group's, else the default.

        A host's value replaces the default value; lists are not merged (queue_conf(5)).
        """
        own = (value for where, value in self.others if where.lower() == host.lower())
        shared = (value for where, value in self.others if where in groups)
        return next(own, next(shared, self.usual))


def parse_qconf_values_by_host(text: str) -> QconfValuesByHost:
    """Parse an attribute in qconf's output: a default value, and values for some hosts."""
    usual = text.partition("[")[0].rstrip(", ")
    by_host = tuple((where.strip(), value.strip()) for where, value in PARTS.findall(text))
    return QconfValuesByHost(usual=usual, others=by_host)


def qconf_queue_value_by_host(text: str) -> tuple[tuple[str, str], ...]:
    """Return the values of a queue attribute, each with a suffix to the queue's name: '', `@HOST` or `@@GROUP`."""
    values = parse_qconf_values_by_host(text)
    return (("", values.usual), *((f"@{where}", value) for where, value in values.others))


def parse_qconf_pairs_by_host(text: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """Parse a queue attribute `a=1,b=2`, with the suffix of the queue's name for each value."""
    return tuple((where, parse_qconf_pairs(value)) for where, value in qconf_queue_value_by_host(text))


def parse_qconf_pairs(value: str) -> dict[str, str]:
    """Parse a list of pairs `a=1,b=2`, or NONE; values for single hosts are left out."""
    plain = value.partition(",[")[0]
    parts = (part.partition("=") for part in plain.replace(" ", "").split(","))
    return {name: text for name, _, text in parts if name and name.upper() != "NONE"}


def parse_qconf_words(value: str) -> tuple[str, ...]:
    """Parse a list of words `a b` or `a,b`, or NONE; values for single hosts are left out."""
    parts = value.partition(",[")[0].replace(",", " ").split()
    return tuple(part for part in parts if part.upper() != "NONE")


def is_true_in_qconf(value: str) -> bool:
    """Say whether a Grid Engine BOOL is true: `true` or `1`, in upper or lower case."""
    return value.lower() in {"true", "1"}


def is_transfer_queue(queue: QconfSettings) -> bool:
    """Say whether a queue is a transfer queue: the queue offers remote=TRUE."""
    return is_true_in_qconf(parse_qconf_pairs(queue.get("complex_values", "")).get("remote", ""))


def is_besteffort_queue(queue: QconfSettings) -> bool:
    """Say whether a queue is a best-effort queue: the queue offers gb_besteffort=TRUE."""
    return is_true_in_qconf(parse_qconf_pairs(queue.get("complex_values", "")).get(BEST_EFFORT, ""))
