"""The sections of gridbridge.toml for elastic clusters, from [balance] to [power.HOST]."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from gridbridge.config.section_parsing import (
    ConfigKeyProblem,
    NamedSections,
    SectionGroupOfOneName,
    Table,
    UnnamedSection,
    format_toml_key,
    subtable_or_empty,
)
from gridbridge.model.config_key_descriptions import OBJECT_NAME
from gridbridge.model.elastic.balancer_config_sections import (
    FILE,
    HOST_NAME,
    MAC,
    PLACE,
    SCHEDULE,
    WORD,
    BalanceSection,
    DemandPolicySection,
    HostPowerSection,
    MachineBootstrapSection,
    MachineProviderSection,
    NodePoolSection,
    PowerSwitchMethod,
    ProviderKind,
    SqueezeSection,
)

FOR_ALL = ("kind", "timeout_s")
PROVIDER_DEFAULTS: Mapping[str, object] = {
    key.name: getattr(MachineProviderSection(), key.name) for key in fields(MachineProviderSection)
}
POOL_OVERRIDES = ("image", "size")  # keys of a provider that each pool may set to another value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKindKeys:
    has: tuple[str, ...]
    needs: Mapping[str, str]


FORMS = {"program": FILE, "broadcast": PLACE, "bmc": PLACE, "mac": MAC, "password_file": FILE}


def _provider_kind_keys(needs: tuple[str, ...], *optional: str) -> ProviderKindKeys:
    has = tuple(dict.fromkeys((*needs, *optional)))
    right = {key: FORMS.get(key, WORD).right.removesuffix(", or empty") for key in needs}
    return ProviderKindKeys(has=has, needs=right)


OF_CLOUDS = ("region", "credentials", "image", "size", "key_name")
OF_KIND = {
    ProviderKind.COMMAND: _provider_kind_keys(("program",)),
    ProviderKind.EC2: _provider_kind_keys(
        ("region",), *OF_CLOUDS, "endpoint", "user_data", "subnet", "security_groups"
    ),
    ProviderKind.LIBCLOUD: _provider_kind_keys(("driver",), *OF_CLOUDS, "arguments"),
    ProviderKind.POWER: _provider_kind_keys((), "way", "program", "broadcast"),
}
OF_WAY = {
    PowerSwitchMethod.IPMI: _provider_kind_keys(()),
    PowerSwitchMethod.WAKE: _provider_kind_keys(("broadcast",), "program"),
    PowerSwitchMethod.COMMAND: _provider_kind_keys(("program",)),
}
OF_HOST = {
    PowerSwitchMethod.IPMI: _provider_kind_keys(("bmc", "user", "password_file")),
    PowerSwitchMethod.WAKE: _provider_kind_keys(("mac",)),
    PowerSwitchMethod.COMMAND: _provider_kind_keys(()),
}


def _provider_pool_and_power_problems(sections: Table) -> Iterator[str]:
    providers = subtable_or_empty(sections, "provider")
    judges = (("provider", _provider_problems), ("pool", _pool_problems), ("power", _powered_host_problems))
    for title, judge in judges:
        for name, table in subtable_or_empty(sections, title).items():
            problems = judge(table, providers) if isinstance(table, dict) else ()
            yield from (f"[{title}.{format_toml_key(name)}] {problem}" for problem in problems)


def _provider_kind(provider: Table) -> ProviderKind:
    kind = provider.get("kind", ProviderKind.COMMAND)
    return ProviderKind(str(kind)) if kind in list(ProviderKind) else ProviderKind.COMMAND


def _power_switch_method(provider: Table) -> PowerSwitchMethod:
    way = provider.get("way", PowerSwitchMethod.IPMI)
    return PowerSwitchMethod(str(way)) if way in list(PowerSwitchMethod) else PowerSwitchMethod.IPMI


def _provider_problems(provider: Table, _: Table) -> Iterator[str]:
    if provider.get("kind", ProviderKind.COMMAND) not in list(ProviderKind):
        return
    kind = _provider_kind(provider)
    foreign = tuple(key for key in PROVIDER_DEFAULTS if key not in (*FOR_ALL, *OF_KIND[kind].has))
    yield from _missing_and_foreign_provider_keys(provider, OF_KIND[kind], foreign, f"with kind {kind}")
    if kind is ProviderKind.POWER and provider.get("way", PowerSwitchMethod.IPMI) in list(PowerSwitchMethod):
        way = _power_switch_method(provider)
        foreign = tuple({"program", "broadcast"} - {*OF_WAY[way].has})
        yield from _missing_and_foreign_provider_keys(provider, OF_WAY[way], foreign, f"with way = {way}")


def _missing_and_foreign_provider_keys(
    table: Table, keys: ProviderKindKeys, foreign: tuple[str, ...], wrong: str
) -> Iterator[str]:
    for key, right in keys.needs.items():
        if not table.get(key):
            yield f"{key}: missing; expected {right}"
    for key in foreign:
        value = table.get(key, PROVIDER_DEFAULTS.get(key, ""))
        if value != PROVIDER_DEFAULTS.get(key, ""):
            right = f"one of the keys {', '.join(keys.has)}" if keys.has else "no such key"
            yield f"{key}{ConfigKeyProblem(value, wrong, right)}"


def _pool_problems(pool: Table, providers: Table) -> Iterator[str]:
    name = pool.get("provider")
    makers, _ = _machine_makers_and_power_switches(providers)
    if name and name not in makers:
        names = ", ".join(makers) or "none is defined"
        wrong = "makes no machines" if name in providers else "undefined"
        yield f"provider{ConfigKeyProblem(name, wrong, f'a provider ({names})')}"
        return
    provider = subtable_or_empty(providers, str(name))
    is_cloud = bool(name) and _provider_kind(provider) is not ProviderKind.COMMAND
    for key in POOL_OVERRIDES if is_cloud else ():
        if not (pool.get(key) or provider.get(key)):
            yield f"{key}: missing; expected here or in [provider.{format_toml_key(str(name))}]"
    for key in () if is_cloud else (*POOL_OVERRIDES, "host_key"):
        if value := pool.get(key):
            wrong = "with kind command" if name else "without a provider"
            yield f"{key}{ConfigKeyProblem(value, wrong, 'a provider of kind ec2 or libcloud')}"


def _machine_makers_and_power_switches(providers: Table) -> tuple[list[str], list[str]]:
    kinds = {name: _provider_kind(subtable_or_empty(providers, name)) for name in providers}
    switches = [name for name, kind in kinds.items() if kind is ProviderKind.POWER]
    return [name for name in kinds if name not in switches], switches


def _powered_host_problems(host: Table, providers: Table) -> Iterator[str]:
    name, (_, switches) = host.get("provider"), _machine_makers_and_power_switches(providers)
    if not name:
        yield "provider: missing; expected a provider of kind power"
    elif name not in switches:
        names = ", ".join(switches) or "none is defined"
        yield f"provider{ConfigKeyProblem(name, 'undefined', f'a provider of kind power ({names})')}"
    else:
        way = _power_switch_method(subtable_or_empty(providers, str(name)))
        known_keys = {key for keys in OF_HOST.values() for key in keys.has}
        foreign = tuple(sorted(known_keys - {*OF_HOST[way].has}))
        yield from _missing_and_foreign_provider_keys(host, OF_HOST[way], foreign, f"with way = {way}")


GROUPS: tuple[SectionGroupOfOneName, ...] = (
    UnnamedSection(name="balance", kind=BalanceSection),
    UnnamedSection(name="demand", kind=DemandPolicySection),
    UnnamedSection(name="squeeze", kind=SqueezeSection),
    UnnamedSection(name="bootstrap", kind=MachineBootstrapSection),
    NamedSections(name="pool", field="pools", kind=NodePoolSection, form=OBJECT_NAME),
    NamedSections(name="provider", field="providers", kind=MachineProviderSection, form=OBJECT_NAME),
    NamedSections(name="power", field="powered", kind=HostPowerSection, form=HOST_NAME),
)


def find_config_problems(sections: Table) -> Iterator[str]:
    """Find contradictory limits, and keys that do not fit the kind of a provider."""
    section = subtable_or_empty(sections, "balance")
    least, most = section.get("min_nodes"), section.get("max_nodes")
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        yield f"[balance] min_nodes: {least}; expected at most max_nodes ({most})"
    yield from _demand_schedule_problems(subtable_or_empty(sections, "demand").get("schedule"))
    section = subtable_or_empty(sections, "squeeze")
    minimal = section.get("minimal_reserve", SqueezeSection().minimal_reserve)
    target = section.get("target_reserve", SqueezeSection().target_reserve)
    if isinstance(minimal, int | float) and isinstance(target, int | float) and minimal > target:
        right = f"expected at most target_reserve ({target})"
        yield f"[squeeze] minimal_reserve: {minimal}; {right}"
    boot = subtable_or_empty(sections, "bootstrap")
    for key in ("user", "key"):
        if boot.get("steps") and not boot.get(key):
            yield f"[bootstrap] {key}: empty; expected a value, because steps are done by ssh"
    steps = str(boot.get("steps", "")).split()
    for step in ("people", "mounts"):
        if step in steps and not boot.get(step):
            yield f'[bootstrap] {step}: empty; expected a value, or steps without "{step}"'
    yield from _provider_pool_and_power_problems(sections)


def _demand_schedule_problems(schedule: object) -> Iterator[str]:
    if not isinstance(schedule, str) or not SCHEDULE.holds(schedule):
        return
    for entry in filter(None, schedule.split(", ")):
        least, _, most = entry.rpartition(" ")[2].partition("-")
        if int(least) > int(most):
            yield f"[demand] schedule: {entry!r}; expected the smaller number first"
