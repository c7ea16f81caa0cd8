"""Where the next replica of a dataset goes.

Hydra asks of a target that it is up and can be written, that it has no copy yet, more than the
least free, and that the copy takes at most a part of what is free; copies spread over as many
places as there are (facts of its "optimal host"). A place is a cluster here.
"""

from collections.abc import Collection, Mapping, Sequence

from gridbridge.model.rebalance.datasets import Dataset, RefusedArea, bytes_text
from gridbridge.model.rebalance.rebalance_section import Rebalance
from gridbridge.model.rebalance.storage_areas import MeasuredArea


def next_target(
    dataset: Dataset, areas: Sequence[MeasuredArea], rules: Rebalance, barred: Mapping[str, str]
) -> tuple[str, tuple[RefusedArea, ...]]:
    """Return the area for the next replica, empty for none, and why not the others.

    First an area in which a copy was begun: it goes on; then one whose replica is not whole: it is
    repaired; then a cluster that has no whole replica; then the most free; then the first by name.
    `barred` says of areas why not they.
    """
    reasons = {
        one.storage: barred.get(one.storage) or why_not(dataset, one, rules) for one in areas
    }
    refused = tuple(RefusedArea(what=name, reason=why) for name, why in reasons.items() if why)
    fit = [one for one in areas if not reasons[one.storage]]
    held = {one.cluster for one in areas if one.storage in dataset.whole}
    best = min(fit, key=lambda one: _order(dataset, one, held), default=None)
    return best.storage if best else "", refused


def _order(
    dataset: Dataset, one: MeasuredArea, held: Collection[str]
) -> tuple[bool, bool, bool, int, str]:
    is_unbegun, is_new = one.storage not in dataset.begun, one.storage not in dataset.storages
    return is_unbegun, is_new, one.cluster in held, -one.free_bytes, one.storage


def why_not(dataset: Dataset, one: MeasuredArea, rules: Rebalance) -> str:
    """Say why an area can't take a replica, nothing when it can.

    Of a copy that was begun there only the rest is to come.
    """
    most = int(one.free_bytes * rules.disk_share)
    rest = max(0, dataset.size_bytes - one.begun_bytes)
    if one.storage in dataset.whole:
        return "it has a whole replica"
    if one.fault:
        return one.fault
    if one.is_read_only:
        return "it is read-only"
    if one.free_bytes + one.begun_bytes <= rules.min_free_bytes:
        free, least = bytes_text(one.free_bytes), bytes_text(rules.min_free_bytes)
        return f"{free} are free, and it takes more than {least} (min_free_bytes of [rebalance])"
    if rest > most:
        return (
            f"{bytes_text(rest)} are more than the {bytes_text(most)} that one copy may take there"
        )
    return ""
