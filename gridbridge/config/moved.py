"""Keys that had another place in an earlier version: they are still read there, with a warning."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from gridbridge.config.words import Table, Wrong, table_of, toml
from gridbridge.model.settings import Moved

MOVED: Mapping[str, tuple[str, str]] = MappingProxyType(  # of [poller]: section and key by now
    {
        "breaker_failures": ("breaker", "failures"),
        "breaker_fast_s": ("breaker", "fast_s"),
        "breaker_pause_s": ("breaker", "pause_s"),
        "breaker_pause_max_s": ("breaker", "pause_max_s"),
        "keep_closed_h": ("retention", "closed_h"),
        "keep_accounting_d": ("retention", "accounting_d"),
    }
)
BEFORE = "poller"


def settled(sections: Table) -> Table:
    """Return the sections with every key in its new place; a value that is there counts."""
    found = table_of(sections, BEFORE)
    changed: dict[str, object] = {**sections}
    for old in found.keys() & MOVED.keys():
        section, key = MOVED[old]
        if isinstance(changed.get(section, {}), dict):
            changed[section] = {key: found[old], **table_of(changed, section)}
    if found:
        changed[BEFORE] = {key: value for key, value in found.items() if key not in MOVED}
    return changed


def problems(sections: Table) -> Iterator[str]:
    """Find keys that have two values: nobody could say which one counts."""
    for old, value in table_of(sections, BEFORE).items():
        section, key = MOVED.get(old, ("", ""))
        if key in table_of(sections, section):
            yield f"[{BEFORE}] {old}{Wrong(value, 'said twice', f'[{section}] {key} alone')}"


def moved(sections: Table) -> tuple[Moved, ...]:
    """Return the keys in their older places, in the order of the file."""
    return tuple(
        Moved(
            before=f"[{BEFORE}] {old}",
            section=f"[{MOVED[old][0]}]",
            line=f"{MOVED[old][1]} = {toml(value)}",
        )
        for old, value in table_of(sections, BEFORE).items()
        if old in MOVED
    )
