"""The sections of a cluster that grows and shrinks, from [balance] to [power.HOST]."""

from collections.abc import Iterator

from gridbridge.config import providers
from gridbridge.config.mistakes import Table, table_of
from gridbridge.config.sections import NamedSections, SectionGroup, SingleSection
from gridbridge.model.elastic.balance_sections import (
    HOST_NAME,
    SCHEDULE,
    BalanceSection,
    BootstrapSection,
    DemandSection,
    PoolSection,
    PoweredHostSection,
    ProviderSection,
    SqueezeSection,
)
from gridbridge.model.settings import OBJECT_NAME

GROUPS: tuple[SectionGroup, ...] = (
    SingleSection(name="balance", kind=BalanceSection),
    SingleSection(name="demand", kind=DemandSection),
    SingleSection(name="squeeze", kind=SqueezeSection),
    SingleSection(name="bootstrap", kind=BootstrapSection),
    NamedSections(name="pool", field="pools", kind=PoolSection, form=OBJECT_NAME),
    NamedSections(name="provider", field="providers", kind=ProviderSection, form=OBJECT_NAME),
    NamedSections(name="power", field="powered", kind=PoweredHostSection, form=HOST_NAME),
)


def problems(sections: Table) -> Iterator[str]:
    """Find limits that contradict each other, and what does not go with a kind of provider."""
    section = table_of(sections, "balance")
    least, most = section.get("min_nodes"), section.get("max_nodes")
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        yield f"[balance] min_nodes: {least}; expected at most max_nodes ({most})"
    yield from _of_schedule(table_of(sections, "demand").get("schedule"))
    section = table_of(sections, "squeeze")
    minimal = section.get("minimal_reserve", SqueezeSection().minimal_reserve)
    target = section.get("target_reserve", SqueezeSection().target_reserve)
    if isinstance(minimal, int | float) and isinstance(target, int | float) and minimal > target:
        right = f"expected at most target_reserve ({target})"
        yield f"[squeeze] minimal_reserve: {minimal}; {right}"
    boot = table_of(sections, "bootstrap")
    for key in ("user", "key"):
        if boot.get("steps") and not boot.get(key):
            yield f"[bootstrap] {key}: empty; steps are done by ssh, and need one"
    steps = str(boot.get("steps", "")).split()
    for step in ("people", "mounts"):
        if step in steps and not boot.get(step):
            yield f'[bootstrap] {step}: empty; expected a value, or steps without "{step}"'
    yield from providers.problems(sections)


def _of_schedule(schedule: object) -> Iterator[str]:
    """Find entries whose least is above their most."""
    if not isinstance(schedule, str) or not SCHEDULE.holds(schedule):
        return
    for entry in filter(None, schedule.split(", ")):
        least, _, most = entry.rpartition(" ")[2].partition("-")
        if int(least) > int(most):
            yield f"[demand] schedule: {entry!r}; expected the least nodes first"
