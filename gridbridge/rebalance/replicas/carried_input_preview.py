"""Tells which input files of a new campaign lie at each cluster, and how long the copy of the others would take."""

import os
from collections.abc import Iterable, Iterator, Mapping

from gridbridge.errors import GridbridgeError, error_on_one_line
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site_configuration import Policy
from gridbridge.rebalance.replicas.carried_input_files import CarriedInputFolder
from gridbridge.rebalance.replicas.task_input_carrier import storage_area_of_inputs

Rates = Mapping[str, Mapping[int, float]]  # {cluster: {uid: bytes per second}}


def describe_inputs_at_clusters(
    sizes: Mapping[str, int], clusters: Iterable[str], policy: Policy, rates: Rates
) -> Iterator[str]:
    """Yield a line about each cluster; `sizes` has the bytes of each file by its checksum. No file is copied."""
    for name in sorted(policy.clusters.keys() & {*clusters}):
        if not policy.clusters[name].ssh:
            yield f"inputs at {name}: the cluster sees the files, so none is copied"
            continue
        try:
            present = CarriedInputFolder(storage_area_of_inputs(policy, name), links="").list_files(sizes)
        except (GridbridgeError, OSError) as error:
            yield f"inputs at {name}: unknown, because of: {error_on_one_line(error)}"
            continue
        whole = {file.digest for file in present if file.size_bytes == sizes[file.digest]}
        lacking_bytes = sum(size for digest, size in sizes.items() if digest not in whole)
        copy = _describe_copy(lacking_bytes, rates.get(name, {}).get(os.getuid()))
        yield f"inputs at {name}: {_describe_files(len(whole), len(sizes))}{copy}"


def _describe_files(present: int, files: int) -> str:
    verb = "is" if present == 1 else "are"
    return f"{present} of {number_with_noun(files, 'file')} {verb} there"


def _describe_copy(lacking_bytes: int, bytes_per_s: float | None) -> str:
    if not lacking_bytes:
        return ""
    if not bytes_per_s:
        return f", {lacking_bytes} bytes are copied; the time is unknown, because no copy has been timed"
    return f", {lacking_bytes} bytes are copied in about {lacking_bytes / bytes_per_s:.0f} s"
