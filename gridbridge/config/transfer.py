"""The sections of gridbridge.toml for transfers: queues, mapping rules, [poller], [breaker] and [retention]."""

from collections.abc import Iterator

from gridbridge.config.section_parsing import (
    MAPS,
    ConfigKeyProblem,
    NamedSections,
    RequestMappingSections,
    SectionGroupOfOneName,
    Table,
    UnnamedSection,
    batch_system_of_cluster_section,
    find_problems_within_section,
    format_toml_key,
    subtable_or_empty,
)
from gridbridge.config.site import config_keys_of_cluster_kind
from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts
from gridbridge.model.config_key_descriptions import CLUSTER_NAME, OBJECT_NAME
from gridbridge.model.job_request import is_home_only_resource
from gridbridge.model.site_configuration import why_no_transfer_queues_at_home
from gridbridge.model.transfer import request_mapping_rules
from gridbridge.model.transfer.transfer_config_sections import (
    KINDS,
    REMOTE_NAME_FORMAT,
    BreakerSection,
    PollerSection,
    ResourceMappingRule,
    RetentionSection,
    TransferQueueSection,
)

WALLTIME = "h_rt"  # the resource that limits a job's run time; every OAR server has such a limit
TIMES = (WALLTIME, "s_rt", "h_cpu", "s_cpu")  # time limits of queue_conf(5)
SLOTS = ("/nodes", "/network_address", "/resource_id")  # OAR's names for the levels of a job's `-l` request
EXCLUDES = {  # {key of a mapping rule: keys that contradict it}
    "reject": ("to", "scale", "unit", "relation", "default", "drop", "require", "spread"),
    "drop": ("to", "scale", "unit", "relation", "default"),
    "require": ("default",),
}
NO_KIND = "unknown kind; expected resource, pe, project or queue"
NO_NAME = "no rule; expected a section with a name below"


def find_request_mapping_problems(sections: Table) -> Iterator[str]:
    clusters, local = subtable_or_empty(sections, "cluster"), subtable_or_empty(sections, "site").get("cluster")
    for cluster, kinds in subtable_or_empty(sections, MAPS).items():
        title, by_rule = f"{MAPS}.{format_toml_key(cluster)}", _needs_rule_for_each_resource(clusters, cluster)
        if cluster not in clusters or cluster == local:
            wrong = "the local cluster" if cluster == local else "undefined"
            yield f"[{title}]: {wrong}; expected the name of a remote [cluster.NAME]"
        if not isinstance(kinds, dict):
            yield f"[{title}]: no rules; expected [{title}.KIND.NAME] with a kind of {', '.join(KINDS)}"
            continue
        for kind, rules in kinds.items():
            if kind not in KINDS or not isinstance(rules, dict):
                yield f"[{title}.{format_toml_key(kind)}]: {NO_NAME if kind in KINDS else NO_KIND}"
                continue
            yield from _mapping_rule_problems(f"{title}.{kind}", kind, rules)
            if kind == request_mapping_rules.PE and not by_rule:
                yield from _spread_key_problems(f"{title}.{kind}", rules)
            if kind == request_mapping_rules.RESOURCE:
                yield from _time_unit_problems(f"{title}.{kind}", rules, (WALLTIME,) if by_rule else TIMES)
                yield from (_walltime_and_level_problems if by_rule else _relation_and_level_key_problems)(
                    f"{title}.{kind}", rules
                )
    yield from _queue_mapping_problems(sections)


def _queue_mapping_problems(sections: Table) -> Iterator[str]:
    queues, clusters = subtable_or_empty(sections, "queue"), subtable_or_empty(sections, "cluster")
    for name in queues:
        queue, title = subtable_or_empty(queues, name), f"queue.{format_toml_key(name)}"
        cluster = str(queue.get("cluster"))
        by_rule, maps = _needs_rule_for_each_resource(clusters, cluster), subtable_or_empty(sections, MAPS)
        for key in () if by_rule else ("oar_queue", "oar_type"):
            if value := queue.get(key):
                yield _mapping_key_problem((title, key, value), "the cluster is not OAR", "empty")
        rules = subtable_or_empty(subtable_or_empty(maps, cluster), request_mapping_rules.RESOURCE)
        for resource, value in subtable_or_empty(queue, "asks").items():
            entry = (title, f"asks.{format_toml_key(resource)}", value)
            rule = subtable_or_empty(rules, resource)
            yield from _default_request_problems(entry, resource, rule)
            if by_rule:
                yield from _walltime_and_level_value_problems(entry, resource, rule)
            if by_rule and resource not in (*rules, WALLTIME):
                right = f"a rule [{MAPS}.{cluster}.resource.{resource}]"
                yield _mapping_key_problem(entry, "no rule", right)


def _spread_key_problems(title: str, rules: Table) -> Iterator[str]:
    for name in rules:
        if spread := subtable_or_empty(rules, name).get("spread"):
            entry = (f"{title}.{format_toml_key(name)}", "spread", spread)
            yield _mapping_key_problem(entry, "not an OAR cluster", "empty, because the remote allocation_rule applies")


def _default_request_problems(entry: tuple[str, str, object], resource: str, rule: Table) -> Iterator[str]:
    if is_home_only_resource(resource):
        yield _mapping_key_problem(entry, "a host or queue at home", "a resource of the remote cluster")
    elif rule.get("drop") or rule.get("reject"):
        yield _mapping_key_problem(
            entry, "dropped or rejected by its rule", "a resource whose rule has no drop or reject"
        )
    else:
        yield from _default_amount_problems(entry, rule)


def _mapping_key_problem(entry: tuple[str, str, object], wrong: str, right: str) -> str:
    title, key, value = entry
    return f"[{title}] {key}{ConfigKeyProblem(value, wrong, right)}"


def _needs_rule_for_each_resource(clusters: Table, cluster: str) -> bool:
    return config_keys_of_cluster_kind(subtable_or_empty(clusters, cluster)).asks_by_rule


def _time_unit_problems(title: str, rules: Table, times: tuple[str, ...]) -> Iterator[str]:
    """Find time limits in minutes or hours, which the remote cluster would read as seconds."""
    for name in rules:
        rule = subtable_or_empty(rules, name)
        unit, remote_name = rule.get("unit", ""), rule.get("to") or name
        if remote_name in times and unit not in ("", "s", grid_engine_amounts.CLOCK):
            entry = (f"{title}.{format_toml_key(name)}", "unit", unit)
            yield _mapping_key_problem(
                entry, f"{remote_name} is in seconds at the cluster", f"s or {grid_engine_amounts.CLOCK}, or empty"
            )


def _walltime_and_level_problems(title: str, rules: Table) -> Iterator[str]:
    """Find wrong keys and values in mapping rules for OAR's walltime, and in rules for levels of `-l`."""
    for name in rules:
        rule = subtable_or_empty(rules, name)
        section, remote_name = f"{title}.{format_toml_key(name)}", str(rule.get("to") or name)
        if remote_name in SLOTS:
            yield _mapping_key_problem(
                (section, "to", remote_name), "the slots of a job request this level", "another level"
            )
        is_level = remote_name.startswith("/")
        reason = f"{remote_name} is requested by number" if is_level else "a walltime is always an upper limit"
        for key in ("relation", "unit") if is_level else ("relation",):
            if (is_level or remote_name == WALLTIME) and (value := rule.get(key)):
                yield _mapping_key_problem((section, key, value), reason, "empty")
        yield from _walltime_and_level_value_problems((section, "default", rule.get("default", "")), name, rule)


def _walltime_and_level_value_problems(entry: tuple[str, str, object], name: str, rule: Table) -> Iterator[str]:
    """Find values that OAR does not accept as a walltime or as a number for `-l`."""
    value, remote_name = str(entry[2]), str(rule.get("to") or name)
    if not value or _is_amount_converted(rule) or grid_engine_amounts.is_unlimited_grid_engine_amount(value):
        return
    if remote_name == WALLTIME and value.strip("0123456789:"):
        yield _mapping_key_problem(entry, "not a time", "seconds, or h:m:s")
    if remote_name.startswith("/") and not (value.isascii() and value.isdecimal() and int(value)):
        yield _mapping_key_problem(entry, f"not a number of {remote_name}", "a whole number, 1 or more")


def _relation_and_level_key_problems(title: str, rules: Table) -> Iterator[str]:
    for name in rules:
        rule, section = subtable_or_empty(rules, name), f"{title}.{format_toml_key(name)}"
        if relation := rule.get("relation"):
            yield _mapping_key_problem(
                (section, "relation", relation), "not an OAR cluster", "empty, because Grid Engine defines comparisons"
            )
        if str(remote_name := rule.get("to", "")).startswith("/"):
            yield _mapping_key_problem((section, "to", remote_name), "not an OAR cluster", REMOTE_NAME_FORMAT.right)


def _mapping_rule_problems(title: str, kind: str, rules: Table) -> Iterator[str]:
    section, form = KINDS[kind]
    for name, table in rules.items():
        rule = f"{title}.{format_toml_key(name)}"
        if not form.holds(name):
            yield f"[{rule}]: wrong name; expected {form.right}"
        mistakes = list(find_problems_within_section(rule, table, section))
        yield from mistakes or _mapping_rule_contradictions(rule, name, kind, subtable_or_empty(rules, name))
    yield from _mapping_cycle_problems(title, rules)
    if kind == request_mapping_rules.RESOURCE:
        yield from _duplicate_remote_name_problems(title, rules)


def _mapping_rule_contradictions(title: str, name: str, kind: str, rule: Table) -> Iterator[str]:
    set_keys = [key for key, value in rule.items() if value]
    for first, excluded in EXCLUDES.items():
        if first in set_keys and (conflicting := [key for key in set_keys if key in excluded]):
            yield f"[{title}]: {first} and {conflicting[0]} contradict each other; expected one of the two"
    if kind != request_mapping_rules.RESOURCE:
        return
    for word in (name, str(rule.get("to", ""))):
        if is_home_only_resource(word):
            yield f"[{title}]: {word} names a host or queue at home, and is never requested remotely"
    yield from _default_amount_problems((title, "default", rule.get("default", "")), rule)


def _default_amount_problems(entry: tuple[str, str, object], rule: Table) -> Iterator[str]:
    default = str(entry[2])
    try:
        if default and _is_amount_converted(rule) and not grid_engine_amounts.is_unlimited_grid_engine_amount(default):
            grid_engine_amounts.parse_grid_engine_amount(default)
    except ParseError as error:
        yield _mapping_key_problem(entry, f"impossible to convert: {error}", "an amount")


def _is_amount_converted(rule: Table) -> bool:
    usual = ResourceMappingRule()
    return bool(rule.get("unit", usual.unit)) or rule.get("scale", usual.scale) != usual.scale


def _duplicate_remote_name_problems(title: str, rules: Table) -> Iterator[str]:
    sources: dict[str, str] = {}
    for name in rules:
        rule = subtable_or_empty(rules, name)
        if rule.get("drop") is True or rule.get("reject"):
            continue
        remote_name = str(rule.get("to") or name)
        if remote_name in sources:
            entry = (f"{title}.{format_toml_key(name)}", "to", remote_name)
            yield _mapping_key_problem(
                entry, f"{sources[remote_name]} gets the same name", "another name, or one of the resources dropped"
            )
        sources.setdefault(remote_name, name)


def _mapping_cycle_problems(title: str, rules: Table) -> Iterator[str]:
    for name in rules:
        path = [name]
        while (remote_name := str(subtable_or_empty(rules, path[-1]).get("to", ""))) in rules:
            if remote_name in path:
                break
            path.append(remote_name)
        if remote_name == name == min(path) and len(path) > 1:
            entry = (f"{title}.{format_toml_key(name)}", "to", path[1])
            yield _mapping_key_problem(entry, f"a cycle: {', '.join((*path, name))}", "the remote name")


GROUPS: tuple[SectionGroupOfOneName, ...] = (
    NamedSections(name="queue", field="queues", kind=TransferQueueSection, form=OBJECT_NAME),
    RequestMappingSections(),
    UnnamedSection(name="poller", kind=PollerSection),
    UnnamedSection(name="breaker", kind=BreakerSection),
    UnnamedSection(name="retention", kind=RetentionSection),
)


def find_config_problems(sections: Table) -> Iterator[str]:
    """Find contradictions between queues, mappings, clusters and the poller."""
    yield from find_request_mapping_problems(sections)
    if why := _why_no_transfer_queues(sections):
        yield f"[queue.{format_toml_key(next(iter(subtable_or_empty(sections, 'queue'))))}]: {why}"
    else:
        yield from _transfer_queue_problems(sections)
    yield from _poller_staleness_problems(subtable_or_empty(sections, "poller"))


def _why_no_transfer_queues(sections: Table) -> str:
    local = subtable_or_empty(sections, "site").get("cluster")
    if not subtable_or_empty(sections, "queue") or not isinstance(local, str):
        return ""
    clusters = subtable_or_empty(sections, "cluster")
    return why_no_transfer_queues_at_home(
        local, batch_system_of_cluster_section(subtable_or_empty(clusters, local)) if local in clusters else None
    )


def _transfer_queue_problems(sections: Table) -> Iterator[str]:
    clusters, local = subtable_or_empty(sections, "cluster"), subtable_or_empty(sections, "site").get("cluster")
    remotes = ", ".join(name for name in clusters if name != local) or "none is defined"
    queues = subtable_or_empty(sections, "queue")
    for name in queues:
        queue, title = subtable_or_empty(queues, name), f"queue.{format_toml_key(name)}"
        cluster = queue.get("cluster")
        if not isinstance(cluster, str) or not CLUSTER_NAME.holds(cluster):
            continue
        if cluster == local or cluster not in clusters:
            wrong = "the local cluster" if cluster == local else "undefined"
            yield _mapping_key_problem((title, "cluster", cluster), wrong, f"a remote cluster ({remotes})")
            continue
        if subtable_or_empty(clusters, cluster).get("api"):
            right = "ssh instead of api, because a person's jobs can't use root's login"
            yield _mapping_key_problem((title, "cluster", cluster), "a cluster by api", right)
        for key in () if subtable_or_empty(clusters, cluster).get("ssh") else ("stage_in", "stage_out"):
            if value := queue.get(key):
                yield _mapping_key_problem(
                    (title, key, value), "without ssh", "empty, because files are staged only by ssh"
                )


def _poller_staleness_problems(poller: Table) -> Iterator[str]:
    interval_s = poller.get("interval_s", PollerSection().interval_s)
    stale_s = poller.get("stale_s", PollerSection().stale_s)
    if not isinstance(interval_s, int | float) or not isinstance(stale_s, int | float):
        return
    if stale_s <= interval_s:
        entry = ("poller", "stale_s", stale_s)
        yield _mapping_key_problem(entry, "queues would close between two polls", f"above {interval_s} s")
