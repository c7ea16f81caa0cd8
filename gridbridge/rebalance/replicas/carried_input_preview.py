"""Shows which input files of a new campaign are at each cluster, and how long a copy of the other files would take."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping

from gridbridge.errors import GridbridgeError, error_on_one_line
from gridbridge.model.campaigns.task_input_files import TaskInputFile
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site_configuration import Policy
from gridbridge.rebalance.replicas.carried_input_files import CarriedInputFolder
from gridbridge.rebalance.replicas.replicas_as_inputs import replica_paths_of_inputs
from gridbridge.rebalance.replicas.task_input_carrier import storage_area_of_inputs

Rates = Mapping[str, Mapping[int, float]]  # {cluster: {uid: bytes per second}}


def describe_inputs_at_clusters(
    files: Collection[TaskInputFile], clusters: Iterable[str], policy: Policy, rates: Rates
) -> Iterator[str]:
    """Yield a line about each cluster; `files` have different checksums. No file is copied."""
    by_digest = {file.digest: file for file in files}
    for name in sorted(policy.clusters.keys() & {*clusters}):
        if policy.clusters[name].api:
            yield f"inputs at {name}: a cluster by api, to which no files are carried"
            continue
        if not policy.clusters[name].ssh:
            yield f"inputs at {name}: the cluster sees the files, so none is copied"
            continue
        try:
            present = CarriedInputFolder(storage_area_of_inputs(policy, name), links="").list_files(by_digest)
            whole = {copy.digest for copy in present if copy.size_bytes == by_digest[copy.digest].size_bytes}
            whole |= replica_paths_of_inputs(policy, name, [file for file in files if file.digest not in whole]).keys()
        except (GridbridgeError, OSError) as error:
            yield f"inputs at {name}: unknown, because of: {error_on_one_line(error)}"
            continue
        lacking_bytes = sum(file.size_bytes for file in files if file.digest not in whole)
        copy = _describe_copy(lacking_bytes, rates.get(name, {}).get(os.getuid()))
        yield f"inputs at {name}: {_describe_files(len(whole), len(files))}{copy}"


def _describe_files(present: int, files: int) -> str:
    verb = "is" if present == 1 else "are"
    return f"{present} of {number_with_noun(files, 'file')} {verb} there"


def _describe_copy(lacking_bytes: int, bytes_per_s: float | None) -> str:
    if not lacking_bytes:
        return ""
    if not bytes_per_s:
        return f", {lacking_bytes} bytes are copied; the time is unknown, because no copy has been timed"
    return f", {lacking_bytes} bytes are copied in about {lacking_bytes / bytes_per_s:.0f} s"
