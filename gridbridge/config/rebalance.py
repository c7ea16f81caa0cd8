"""The sections of gridbridge.toml for rebalancing: [rebalance] and [storage.NAME]."""

from collections.abc import Iterator

from gridbridge.config import section_parsing
from gridbridge.model.config_key_descriptions import CLUSTER_NAME, OBJECT_NAME
from gridbridge.model.rebalance.rebalance_section import RebalanceSection, StorageAreaSection

SECTION = section_parsing.UnnamedSection(name="rebalance", kind=RebalanceSection)
STORAGE = section_parsing.NamedSections(name="storage", field="storage", kind=StorageAreaSection, form=OBJECT_NAME)
GROUPS: tuple[section_parsing.SectionGroupOfOneName, ...] = (SECTION, STORAGE)


def find_config_problems(sections: section_parsing.Table) -> Iterator[str]:
    """Find contradictory limits, and unknown or duplicate storage areas."""
    section = section_parsing.subtable_or_empty(sections, "rebalance")
    least = section.get("full_free_bytes", RebalanceSection().full_free_bytes)
    enough = section.get("min_free_bytes", RebalanceSection().min_free_bytes)
    if isinstance(least, int) and isinstance(enough, int) and least > enough:
        right = f"expected at most min_free_bytes ({enough})"
        yield f"[rebalance] full_free_bytes: {least}; {right}"
    yield from _storage_area_problems(
        section_parsing.subtable_or_empty(sections, "storage"), section_parsing.subtable_or_empty(sections, "cluster")
    )


def _storage_area_problems(areas: section_parsing.Table, clusters: section_parsing.Table) -> Iterator[str]:
    owners: dict[tuple[str, str], str] = {}
    for name in areas:
        area = section_parsing.subtable_or_empty(areas, name)
        cluster, path = area.get("cluster"), str(area.get("path")).rstrip("/")
        if isinstance(cluster, str) and CLUSTER_NAME.holds(cluster) and cluster not in clusters:
            problem = section_parsing.ConfigKeyProblem(cluster, "undefined", f"one of {', '.join(clusters)}")
            yield f"[storage.{section_parsing.format_toml_key(name)}] cluster{problem}"
        elif name in clusters:
            title = f"[storage.{section_parsing.format_toml_key(name)}]"
            yield f"{title}: the name of a cluster; expected another name, such as {name}-data"
        elif (first := owners.setdefault((str(cluster), path), name)) != name:
            problem = section_parsing.ConfigKeyProblem(path, f"the folder of {first}", "a folder of its own")
            yield f"[storage.{section_parsing.format_toml_key(name)}] path{problem}"
