"""What [provider.NAME], [pool.NAME] and [power.HOST] may say, by the kind of the provider."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from gridbridge.config.mistakes import KeyMistake, Table, key_name, table_of
from gridbridge.model.elastic.balance_sections import (
    FILE,
    MAC,
    PLACE,
    WORD,
    PowerSwitchMethod,
    ProviderKind,
    ProviderSection,
)

FOR_ALL = ("kind", "timeout_s")
USUAL: Mapping[str, object] = {
    key.name: getattr(ProviderSection(), key.name) for key in fields(ProviderSection)
}
OF_POOLS = ("image", "size")  # keys that a pool may say in its provider's place


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderKeys:
    """The keys that go with a kind, and those that it can't do without."""

    has: tuple[str, ...]
    needs: Mapping[str, str]  # and what stands behind them


def _text(key: str) -> str:
    """Say what stands behind a key that has to be there."""
    form = {"program": FILE, "broadcast": PLACE, "bmc": PLACE, "mac": MAC, "password_file": FILE}
    return form.get(key, WORD).right.removesuffix(", or empty")


def _keys(needs: tuple[str, ...], *optional: str) -> ProviderKeys:
    has = tuple(dict.fromkeys((*needs, *optional)))
    return ProviderKeys(has=has, needs={key: _text(key) for key in needs})


OF_CLOUDS = ("region", "credentials", "image", "size", "key_name")
OF_KIND = {
    ProviderKind.COMMAND: _keys(("program",)),
    ProviderKind.EC2: _keys(
        ("region",), *OF_CLOUDS, "endpoint", "user_data", "subnet", "security_groups"
    ),
    ProviderKind.LIBCLOUD: _keys(("driver",), *OF_CLOUDS, "arguments"),
    ProviderKind.POWER: _keys((), "way", "program", "broadcast"),
}
OF_WAY = {
    PowerSwitchMethod.IPMI: _keys(()),
    PowerSwitchMethod.WAKE: _keys(("broadcast",), "program"),
    PowerSwitchMethod.COMMAND: _keys(("program",)),
}
OF_HOST = {
    PowerSwitchMethod.IPMI: _keys(("bmc", "user", "password_file")),
    PowerSwitchMethod.WAKE: _keys(("mac",)),
    PowerSwitchMethod.COMMAND: _keys(()),
}


def problems(sections: Table) -> Iterator[str]:
    """Find every mistake that no section shows by itself."""
    providers = table_of(sections, "provider")
    for name in (name for name in providers if isinstance(providers[name], dict)):
        mistakes = _provider_problems(table_of(providers, name))
        yield from (f"[provider.{key_name(name)}] {problem}" for problem in mistakes)
    for title, judge in (("pool", _pool_problems), ("power", _host_problems)):
        tables = table_of(sections, title)
        for name in (name for name in tables if isinstance(tables[name], dict)):
            mistakes = judge(table_of(tables, name), providers)
            yield from (f"[{title}.{key_name(name)}] {problem}" for problem in mistakes)


def _kind(provider: Table) -> ProviderKind:
    """Return its kind; an unknown one is told elsewhere."""
    kind = provider.get("kind", ProviderKind.COMMAND)
    return ProviderKind(str(kind)) if kind in list(ProviderKind) else ProviderKind.COMMAND


def _way(provider: Table) -> PowerSwitchMethod:
    """Return how it switches; an unknown way is told elsewhere."""
    way = provider.get("way", PowerSwitchMethod.IPMI)
    return PowerSwitchMethod(str(way)) if way in list(PowerSwitchMethod) else PowerSwitchMethod.IPMI


def _provider_problems(provider: Table) -> Iterator[str]:
    if provider.get("kind", ProviderKind.COMMAND) not in list(ProviderKind):
        return
    kind = _kind(provider)
    foreign = tuple(key for key in USUAL if key not in (*FOR_ALL, *OF_KIND[kind].has))
    yield from _misplaced(provider, OF_KIND[kind], foreign, f"with kind {kind}")
    if kind is ProviderKind.POWER and provider.get("way", PowerSwitchMethod.IPMI) in list(
        PowerSwitchMethod
    ):
        way = _way(provider)
        foreign = tuple({"program", "broadcast"} - {*OF_WAY[way].has})
        yield from _misplaced(provider, OF_WAY[way], foreign, f"with way {way}")


def _misplaced(
    table: Table, keys: ProviderKeys, foreign: tuple[str, ...], wrong: str
) -> Iterator[str]:
    """Find the keys that it needs and has not, and those that are of others."""
    for key, right in keys.needs.items():
        if not table.get(key):
            yield f"{key}: missing; {right}"
    for key in foreign:
        value = table.get(key, USUAL.get(key, ""))
        if value != USUAL.get(key, ""):
            right = f"its keys are {', '.join(keys.has)}" if keys.has else "it has no such key"
            yield f"{key}{KeyMistake(value, wrong, right)}"


def _pool_problems(pool: Table, providers: Table) -> Iterator[str]:
    """Find a provider that is not there or makes no machines, and what it would not heed."""
    name = pool.get("provider")
    clouds = tuple(
        provider_name for provider_name in providers if _makes(table_of(providers, provider_name))
    )
    if name and name not in clouds:
        names = ", ".join(clouds) or "none is defined"
        wrong = "it makes no machines" if name in providers else "undefined"
        yield f"provider{KeyMistake(name, wrong, f'a provider ({names})')}"
        return
    provider = table_of(providers, str(name))
    is_cloud = bool(name) and _kind(provider) is not ProviderKind.COMMAND
    for key in OF_POOLS if is_cloud else ():
        if not (pool.get(key) or provider.get(key)):
            yield f"{key}: missing; here or in [provider.{key_name(str(name))}]"
    for key in () if is_cloud else (*OF_POOLS, "host_key"):
        if value := pool.get(key):
            wrong = "with kind command" if name else "without a provider"
            yield f"{key}{KeyMistake(value, wrong, 'a provider of kind ec2 or libcloud heeds it')}"


def _makes(provider: Table) -> bool:
    return _kind(provider) is not ProviderKind.POWER


def _host_problems(host: Table, providers: Table) -> Iterator[str]:
    """Find a provider that switches no hosts, and what its way does not go with."""
    name = host.get("provider")
    switches = tuple(
        provider_name
        for provider_name in providers
        if not _makes(table_of(providers, provider_name))
    )
    if not name:
        yield "provider: missing; a provider of kind power"
    elif name not in switches:
        names = ", ".join(switches) or "none is defined"
        yield f"provider{KeyMistake(name, 'undefined', f'a provider of kind power ({names})')}"
    else:
        way = _way(table_of(providers, str(name)))
        known_keys = {key for keys in OF_HOST.values() for key in keys.has}
        foreign = tuple(sorted(known_keys - {*OF_HOST[way].has}))
        yield from _misplaced(host, OF_HOST[way], foreign, f"with way {way}")
