"""Builds the campaign of an Executor's calls, which differ only in their numbers."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridbridge.campaigns.executor.call_files import PROGRAM
from gridbridge.campaigns.executor.call_program import CALLS, RESULTS
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.errors import ConfigError
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.shell.program_runs import quote_for_sh

OWN_KEYS = ("clusters", "exec_file", "inputs", "nb_jobs", "outputs", "outputs_to", "param_file", "params")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCallClusters:
    """The clusters at which calls run, and whether they share the caller's filesystem."""

    names: tuple[str, ...]
    are_sharing_files: bool


def choose_call_clusters(
    names: Sequence[str], are_sharing_files: bool | None, configuration: str
) -> ExecutorCallClusters:
    """Return the named clusters, by default all; a cluster reached by ssh does not share the caller's filesystem.

    Raises ConfigError for an unknown cluster.
    """
    policy, _ = configuration_in_force.load_config_or_one_in_force(configuration)
    if unknown := ", ".join(name for name in names if name not in policy.clusters):
        raise ConfigError((f"no cluster {unknown} here; the clusters are {', '.join(sorted(policy.clusters))}",))
    chosen = tuple(names) or _clusters_of_campaigns(policy)
    if are_sharing_files is None:
        are_sharing_files = not any(policy.clusters[name].has_own_accounts_and_files for name in chosen)
    return ExecutorCallClusters(names=chosen, are_sharing_files=are_sharing_files)


def _clusters_of_campaigns(policy: Policy) -> tuple[str, ...]:
    from gridbridge.batch.batch_adapter_table import ADAPTERS  # slow to load

    return tuple(name for name, cluster in policy.clusters.items() if ADAPTERS[cluster.kind].array_ends)


def parse_jdl_of_calls(clusters: ExecutorCallClusters, folder: str, python: str, keys: Mapping[str, Any]) -> ParsedJdl:
    """Return the campaign of the calls in a folder, still without tasks; raise ConfigError for wrong JDL keys."""
    if wrong := ", ".join(sorted(set(OWN_KEYS).intersection(keys))):
        raise ConfigError((f"{wrong}: set by Executor itself; expected other keys of a JDL",))
    program = os.path.basename(sys.argv[0]) or "python"
    table = {"name": f"Executor of {program}", **keys, "clusters": {name: {} for name in clusters.names}}
    if clusters.are_sharing_files:
        # the folder is removed after the last outcome; later tasks, of cancelled calls, then end with 0 at once
        enter = f"[ -e {quote_for_sh(folder)} ] || exit 0; cd -P -- {quote_for_sh(folder)} && [ -O . ] || exit"
        table |= {"exec_file": f'{enter}; exec {quote_for_sh(python)} {PROGRAM} "$OLDPWD"'}
    else:
        table |= {"exec_file": f"exec {quote_for_sh(python)} {PROGRAM} .", "outputs_to": folder}
        table |= {"inputs": [f"{folder}/./{PROGRAM}", f"{folder}/./{CALLS}/{{}}"], "outputs": [f"{RESULTS}/{{}}"]}
    return jdl_reader.parse_jdl("Executor", json.dumps({**table, "nb_jobs": 1}))
