"""Parse attributes of Grid Engine objects in the output of qconf(1), also by host."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

from gridbridge.model.fixed_paths import BEST_EFFORT

QconfSettings = Mapping[str, str]  # value of each attribute of one qconf(1) object

PARTS = re.compile(r"\[([^=\]]+)=([^\]]*)\]")  # overrides by host or group (queue_conf(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class QconfValuesByHost:
    """An attribute's default and its overrides by host, as in `1,[@large=8],[n1=2]`."""

    usual: str = ""
    others: tuple[tuple[str, str], ...] = ()  # (host or host group, value) pairs

    def on(self, host: str, groups: Container[str]) -> str:
        """Return an attribute's value for a host, the host's own value first (queue_conf(5)).

        A host's value replaces the whole default value, also the value of a list.
        """
        own = (value for where, value in self.others if where.lower() == host.lower())
        shared = (value for where, value in self.others if where in groups)
        return next(own, next(shared, self.usual))


def parse_qconf_values_by_host(text: str) -> QconfValuesByHost:
    """Parse an attribute value with overrides by host, as printed by qconf."""
    usual = text.partition("[")[0].rstrip(", ")
    by_host = tuple((where.strip(), value.strip()) for where, value in PARTS.findall(text))
    return QconfValuesByHost(usual=usual, others=by_host)


def qconf_queue_value_by_host(text: str) -> tuple[tuple[str, str], ...]:
    """Return a queue attribute's default value and the value of each host or group.

    Each value has a suffix, as behind the queue's name in qconf(1): empty, `@n1` or `@@big`.
    """
    values = parse_qconf_values_by_host(text)
    return (("", values.usual), *((f"@{where}", value) for where, value in values.others))


def parse_qconf_pairs_by_host(text: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """Parse a queue's list `a=1,b=2` by host, with the suffixes of queue_value_by_host."""
    return tuple((where, parse_qconf_pairs(value)) for where, value in qconf_queue_value_by_host(text))


def parse_qconf_pairs(value: str) -> dict[str, str]:
    """Parse a qconf list `a=1,b=2` (or NONE), without overrides by host."""
    plain = value.partition(",[")[0]
    parts = (part.partition("=") for part in plain.replace(" ", "").split(","))
    return {name: text for name, _, text in parts if name and name.upper() != "NONE"}


def parse_qconf_words(value: str) -> tuple[str, ...]:
    """Parse a qconf list `a b` or `a,b` (or NONE), without overrides by host."""
    parts = value.partition(",[")[0].replace(",", " ").split()
    return tuple(part for part in parts if part.upper() != "NONE")


def is_true_in_qconf(value: str) -> bool:
    """Parse a Grid Engine BOOL: true or 1, in any case."""
    return value.lower() in {"true", "1"}


def is_transfer_queue(queue: QconfSettings) -> bool:
    """Say whether a queue is a transfer queue, which offers remote=TRUE."""
    return is_true_in_qconf(parse_qconf_pairs(queue.get("complex_values", "")).get("remote", ""))


def is_besteffort_queue(queue: QconfSettings) -> bool:
    """Say whether a queue is a best-effort queue, which offers gb_besteffort=TRUE."""
    return is_true_in_qconf(parse_qconf_pairs(queue.get("complex_values", "")).get(BEST_EFFORT, ""))
