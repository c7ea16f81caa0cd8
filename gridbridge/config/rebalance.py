"""The sections of gridbridge.toml for rebalancing: [rebalance] and [storage.NAME]."""

from collections.abc import Iterator
from dataclasses import fields
from difflib import get_close_matches

from gridbridge.config import section_parsing
from gridbridge.model.config_key_descriptions import ABSOLUTE_PATH, CLUSTER_NAME, OBJECT_NAME, PATHS_AT_CLUSTERS
from gridbridge.model.rebalance.rebalance_section import RebalanceSection, StorageAreaKind, StorageAreaSection

SECTION = section_parsing.UnnamedSection(name="rebalance", kind=RebalanceSection)
STORAGE = section_parsing.NamedSections(name="storage", field="storage", kind=StorageAreaSection, form=OBJECT_NAME)
LOCATION = {"cluster": CLUSTER_NAME, "path": ABSOLUTE_PATH}  # keys of an area that one cluster sees
KEYS_OF_KIND = {  # keys that only areas of one kind have
    StorageAreaKind.FOLDER: ("cluster", "path", "clusters", "bwlimit_kib_per_s", "max_jobs", "load_command"),
    StorageAreaKind.COMMAND: ("program", "prefix", "timeout_s"),
}
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


def clusters_of_storage_area(areas: section_parsing.Table, name: str) -> tuple[str, ...]:
    """Return the clusters that see a storage area."""
    area = section_parsing.subtable_or_empty(areas, name)
    return tuple(section_parsing.subtable_or_empty(area, "clusters")) or (str(area.get("cluster")),)


def _storage_area_problems(areas: section_parsing.Table, clusters: section_parsing.Table) -> Iterator[str]:
    owners: dict[tuple[str, str], str] = {}
    for name in areas:
        area, title = section_parsing.subtable_or_empty(areas, name), f"storage.{section_parsing.format_toml_key(name)}"
        kind = area.get("kind", StorageAreaKind.FOLDER)
        if kind not in list(StorageAreaKind):
            continue  # the key's own check names the kinds
        problems = [*_foreign_key_problems(area, StorageAreaKind(str(kind)))]
        problems += (
            _object_store_section_problems(area)
            if kind == StorageAreaKind.COMMAND
            else _storage_location_problems(area, clusters)
        )
        if not problems and name in clusters:
            yield f"[{title}]: the name of a cluster; expected another name, such as {name}-data"
            continue
        yield from (
            f"[{title}] {problem}" for problem in problems or _shared_storage_folder_problems(area, name, owners)
        )


def _foreign_key_problems(area: section_parsing.Table, kind: StorageAreaKind) -> Iterator[str]:
    for key in (key for other, keys in KEYS_OF_KIND.items() if other is not kind for key in keys if key in area):
        right = f"one of the keys {', '.join(KEYS_OF_KIND[kind])}"
        yield f"{key}{section_parsing.ConfigKeyProblem(area[key], f'with kind {kind}', right)}"


def _is_missing(key: str, area: section_parsing.Table) -> bool:
    """Say whether a key is missing, unless another message already names it as the correction of a misspelt key."""
    names = [field.name for field in fields(StorageAreaSection)]
    misspelt = (name for name in area if name not in names)
    return key not in area and all(get_close_matches(name, names, 1) != [key] for name in misspelt)


def _object_store_section_problems(area: section_parsing.Table) -> Iterator[str]:
    if _is_missing("program", area):
        yield f"program: missing; expected {ABSOLUTE_PATH.right}"


def _shared_storage_folder_problems(
    area: section_parsing.Table, name: str, owners: dict[tuple[str, str], str]
) -> Iterator[str]:
    """Find folders and stores that two storage areas share; `owners` maps earlier folders and stores to their areas."""
    shared = section_parsing.subtable_or_empty(area, "clusters")
    pairs: section_parsing.Table = shared or {str(area.get("cluster")): area.get("path")}
    key, noun = "clusters" if shared else "path", "folder"
    if area.get("kind") == StorageAreaKind.COMMAND:
        pairs, key, noun = {str(area.get("program")): area.get("prefix", "")}, "prefix", "store"
    for where, value in pairs.items():
        path = str(value).rstrip("/")
        if (first := owners.setdefault((where, path), name)) != name:
            part = f".{section_parsing.format_toml_key(where)}" if shared else ""
            right = f"a {noun} of its own"
            yield f"{key}{section_parsing.ConfigKeyProblem(path, f'the {noun} of {first}', right, part)}"


def _storage_location_problems(area: section_parsing.Table, clusters: section_parsing.Table) -> Iterator[str]:
    """Find missing, contradictory and undefined clusters; the keys' own types and forms are checked elsewhere."""
    cluster, names = area.get("cluster"), f"one of {', '.join(clusters)}"
    missing = [key for key in LOCATION if _is_missing(key, area)]
    if "clusters" in area:
        yield from _shared_location_problems(area, clusters)
    elif len(missing) == len(LOCATION):
        yield f"cluster: missing; expected cluster and path; or clusters, {PATHS_AT_CLUSTERS.right}"
    elif missing:
        yield f"{missing[0]}: missing; expected {LOCATION[missing[0]].right}"
    elif isinstance(cluster, str) and CLUSTER_NAME.holds(cluster) and cluster not in clusters:
        yield f"cluster{section_parsing.ConfigKeyProblem(cluster, 'undefined', names)}"


def _shared_location_problems(area: section_parsing.Table, clusters: section_parsing.Table) -> Iterator[str]:
    if not LOCATION.keys().isdisjoint(area):
        wrong, right = "beside cluster or path", "either clusters, or cluster and path"
        yield f"clusters{section_parsing.ConfigKeyProblem(area['clusters'], wrong, right)}"
    elif area["clusters"] == {}:
        yield f"clusters{section_parsing.ConfigKeyProblem({}, 'empty', PATHS_AT_CLUSTERS.right)}"
    for name, path in section_parsing.subtable_or_empty(area, "clusters").items():
        if name not in clusters:
            part, names = f".{section_parsing.format_toml_key(name)}", f"one of {', '.join(clusters)}"
            yield f"clusters{section_parsing.ConfigKeyProblem(path, 'an undefined cluster', names, part)}"
