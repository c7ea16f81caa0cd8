"""Choice of the storage area for the next replica of a dataset.

By Hydra's "optimal host", a target is up, writable, without a copy, and has more than the minimum
of free bytes. The copy takes at most a part of the free bytes. Copies spread over as many clusters
as possible.
"""

from collections.abc import Collection, Mapping, Sequence

from gridbridge.model.rebalance.datasets import Dataset, RefusedAreaOrDataset, format_bytes
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea, RebalanceSection


def choose_next_replica_area(
    dataset: Dataset, areas: Sequence[MeasuredStorageArea], rules: RebalanceSection, barred: Mapping[str, str]
) -> tuple[str, tuple[RefusedAreaOrDataset, ...]]:
    """Return the area for a dataset's next replica (or empty) and refused areas.

    Areas are ranked by unfinished copy, damaged replica, cluster without a whole replica, free
    bytes and name. `barred` maps excluded areas to the reason.
    """
    reasons = {
        area.storage: barred.get(area.storage) or why_area_takes_no_replica(dataset, area, rules) for area in areas
    }
    refused = tuple(RefusedAreaOrDataset(what=name, reason=why) for name, why in reasons.items() if why)
    fit = [area for area in areas if not reasons[area.storage]]
    held = {area.cluster for area in areas if area.storage in dataset.whole}
    best = min(fit, key=lambda area: _order(dataset, area, held), default=None)
    return best.storage if best else "", refused


def _order(dataset: Dataset, area: MeasuredStorageArea, held: Collection[str]) -> tuple[bool, bool, bool, int, str]:
    is_unbegun, is_new = area.storage not in dataset.begun, area.storage not in dataset.storages
    return is_unbegun, is_new, area.cluster in held, -area.free_bytes, area.storage


def why_area_takes_no_replica(dataset: Dataset, area: MeasuredStorageArea, rules: RebalanceSection) -> str:
    """Say why an area can't take a replica of a dataset; empty if the area can.

    Only the missing bytes of an unfinished copy count against the free space.
    """
    most = int(area.free_bytes * rules.disk_share)
    missing_bytes = max(0, dataset.size_bytes - area.begun_bytes)
    if area.storage in dataset.whole:
        return "it has a whole replica"
    if area.fault:
        return area.fault
    if area.is_read_only:
        return "it is read-only"
    if area.free_bytes + area.begun_bytes <= rules.min_free_bytes:
        free, least = format_bytes(area.free_bytes), format_bytes(rules.min_free_bytes)
        return f"{free} are free, and it takes more than {least} (min_free_bytes of [rebalance])"
    if missing_bytes > most:
        return f"{format_bytes(missing_bytes)} are more than the {format_bytes(most)} that one copy may take there"
    return ""
