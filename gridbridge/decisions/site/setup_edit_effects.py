"""What a set-up edit changes: the Grid Engine object, and the object's lines after the edit (qconf(1)).

A line is `ATTRIBUTE VALUE`, a row of the table of complexes, or a name in a list.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from gridbridge.model.qconf_attribute_parser import QconfValuesByHost, parse_qconf_values_by_host
from gridbridge.model.site.setup_findings_and_edits import GridEngineObject, SetupEdit, SetupEditVerb

Lines = tuple[str, ...]
LISTS = {"manager": "managers", "operator": "operators", "submit": "submit hosts", "admin": "admin hosts"}
OBJECT_KINDS: Mapping[SetupEditVerb, str] = MappingProxyType(
    {
        SetupEditVerb.SET_COMPLEX: "complexes",
        SetupEditVerb.DROP_COMPLEX: "complexes",
        SetupEditVerb.SET_SCHEDULER: "scheduler",
        SetupEditVerb.SET_HOST: "configuration of host",
        SetupEditVerb.DROP_HOST: "configuration of host",
        SetupEditVerb.ADD_QUEUE: "queue",
        SetupEditVerb.DROP_QUEUE: "queue",
        SetupEditVerb.ALLOW: "userset",
        SetupEditVerb.DISALLOW: "userset",
        SetupEditVerb.DROP_LIST: "userset",
        SetupEditVerb.EXEMPT: "resource quota",
        SetupEditVerb.INCLUDE: "resource quota",
    }
)
NAMELESS = ("complexes", "scheduler")


def object_changed_by_edit(edit: SetupEdit) -> GridEngineObject | None:
    """Return the Grid Engine object whose configuration an edit changes; None for any other edit."""
    if edit.verb in (SetupEditVerb.ADMIT, SetupEditVerb.DISMISS):
        return GridEngineObject(kind=LISTS[edit.kind])
    kind = OBJECT_KINDS.get(edit.verb) or (edit.kind if edit.verb in ATTRIBUTE_CHANGES else "")
    if not kind:
        return None
    return GridEngineObject(kind=kind, name="" if kind in NAMELESS else edit.name.partition("@")[0])


def object_lines_after_edit(edit: SetupEdit, lines: Lines) -> Lines:
    """Return an object's lines after an edit; a missing object has no line."""
    return EFFECTS[edit.verb](edit, lines)


def _lines_without(name: str, lines: Lines) -> Lines:
    return tuple(line for line in lines if line.split(" ", 1)[0] != name)


def _with_attribute(attribute: str, value: str, lines: Lines) -> Lines:
    """Replace an attribute's line in place; append the line of a new attribute."""
    line = f"{attribute} {value}"
    if lines == _lines_without(attribute, lines):
        return (*lines, line)
    return tuple(line if present.split(" ", 1)[0] == attribute else present for present in lines)


def _value_of_attribute(attribute: str, lines: Lines) -> str:
    pairs = (line.partition(" ") for line in lines)
    return next((value for name, _, value in pairs if name == attribute), "")


def _with_value_at_host(change: Callable[[str, str], str], edit: SetupEdit, lines: Lines) -> Lines:
    """Change an attribute's default value, or only the value at the host or host group that the edit names."""
    values = parse_qconf_values_by_host(_value_of_attribute(edit.attribute, lines))
    where, by_host = edit.name.partition("@")[2], dict(values.others)
    if not where:
        values = QconfValuesByHost(usual=change(values.usual, edit.value), others=values.others)
    elif changed := change(by_host.get(where, values.usual), edit.value):
        by_host[where] = changed
    else:
        by_host.pop(where, None)
    parts = (values.usual, *(f"[{host}={value}]" for host, value in by_host.items()))
    return _with_attribute(edit.attribute, ",".join(filter(None, parts)), lines)


def _items_by_name(value: str) -> dict[str, str]:
    """Return the items of a list such as `a=1,b=2` or `a b`, by the names before `=`."""
    items = value.replace(",", " ").split()
    return {item.partition("=")[0]: item for item in items if item.upper() != "NONE"}


def _merged_list(present: str, more: str) -> str:
    return _format_list(_items_by_name(present) | _items_by_name(more))


def _list_without(present: str, dropped: str) -> str:
    names = _items_by_name(dropped)
    return _format_list({name: item for name, item in _items_by_name(present).items() if name not in names})


def _format_list(items: Mapping[str, str]) -> str:
    separator = "," if any("=" in item for item in items.values()) else " "
    return separator.join(items.values()) or "NONE"


def _with_quota_rule_first(edit: SetupEdit, lines: Lines) -> Lines:
    """Insert a rule behind the line `enabled`, before all other rules (sge_resource_quota(5))."""
    others = _without_quota_rule(edit, lines)
    after = next((number for number, line in enumerate(others, 1) if line.startswith("enabled ")), len(others))
    return (*others[:after], edit.value, *others[after:])


def _without_quota_rule(edit: SetupEdit, lines: Lines) -> Lines:
    return tuple(line for line in lines if not line.startswith(f"limit {edit.attribute} "))


def _with_entries(change: Callable[[str, str], str], edit: SetupEdit, lines: Lines) -> Lines:
    entries = change(_value_of_attribute("entries", lines), edit.value).replace(" ", ",")
    return _with_attribute("entries", entries, lines or (f"name {edit.name}",))


ATTRIBUTE_CHANGES: Mapping[SetupEditVerb, Callable[[str, str], str]] = MappingProxyType(
    {
        SetupEditVerb.REPLACE: lambda _, value: value,
        SetupEditVerb.MERGE: _merged_list,
        SetupEditVerb.DROP: _list_without,
        SetupEditVerb.PURGE: lambda _, __: "",
    }
)
EFFECTS: Mapping[SetupEditVerb, Callable[[SetupEdit, Lines], Lines]] = MappingProxyType(
    {
        SetupEditVerb.SET_COMPLEX: lambda edit, lines: (*_lines_without(edit.name, lines), edit.value),
        SetupEditVerb.DROP_COMPLEX: lambda edit, lines: _lines_without(edit.name, lines),
        SetupEditVerb.ADD_QUEUE: lambda edit, _: tuple(edit.value.splitlines()),
        SetupEditVerb.DROP_QUEUE: lambda _, __: (),
        SetupEditVerb.SET_HOST: lambda edit, lines: _with_attribute(edit.attribute, edit.value, lines),
        SetupEditVerb.DROP_HOST: lambda edit, lines: _lines_without(edit.attribute, lines),
        SetupEditVerb.SET_SCHEDULER: lambda edit, lines: _with_attribute(edit.attribute, edit.value, lines),
        SetupEditVerb.ADMIT: lambda edit, lines: (*lines, edit.name),
        SetupEditVerb.DISMISS: lambda edit, lines: _lines_without(edit.name, lines),
        SetupEditVerb.ALLOW: partial(_with_entries, _merged_list),
        SetupEditVerb.DISALLOW: partial(_with_entries, _list_without),
        SetupEditVerb.DROP_LIST: lambda _, __: (),
        SetupEditVerb.EXEMPT: _with_quota_rule_first,
        SetupEditVerb.INCLUDE: _without_quota_rule,
        **{verb: partial(_with_value_at_host, change) for verb, change in ATTRIBUTE_CHANGES.items()},
    }
)
