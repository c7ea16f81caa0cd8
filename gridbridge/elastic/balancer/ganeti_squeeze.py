"""Squeezes a Ganeti cluster that a file describes, as Ganeti's hsqueeze does."""

from dataclasses import dataclass

from gridbridge.decisions.elastic.ganeti_hsqueeze import ganeti_squeeze_shell_commands, plan_ganeti_power_changes
from gridbridge.decisions.elastic.ganeti_node_load import describe_unaccounted_ganeti_use
from gridbridge.elastic import ganeti_text_file
from gridbridge.errors import StandardOutputUnwritable
from gridbridge.model.elastic.ganeti_cluster import GanetiSqueezeAction, GanetiSqueezePlan

BEGIN = """#!/bin/sh

# Ganeti's commands for a decision of gridbridge squeeze.
# If the file /tmp/stop-htools exists, the script ends before its next job.

set -e

check() {
  if [ -f /tmp/stop-htools ]; then
    echo 'Stopped: /tmp/stop-htools is there'
    exit 0
  fi
}

"""
CHECK = "  check"


@dataclass(frozen=True, slots=True, kw_only=True)
class GanetiSqueezeDecisionAndScript:
    way: GanetiSqueezeAction
    nodes: tuple[str, ...]
    is_enough: bool
    offline_candidates: tuple[str, ...]
    online_candidates: tuple[str, ...]
    script: str
    original: str  # text of the cluster file before the squeeze
    squeezed: str
    warnings: tuple[str, ...] = ()

    @property
    def printed_script_lines(self) -> tuple[str, ...]:
        """The script's lines to print: all except calls of the shell function `check`."""
        return tuple(line for line in self.script.removesuffix("\n").split("\n") if line != CHECK)


def decide_squeeze_of_ganeti_file(path: str, minimal: float, target: float) -> GanetiSqueezeDecisionAndScript:
    """Read a Ganeti cluster file, and decide its squeeze; raises ParseError for an invalid file."""
    cluster = ganeti_text_file.read_ganeti_cluster_file(path)
    plan = plan_ganeti_power_changes(cluster, minimal, target)
    return GanetiSqueezeDecisionAndScript(
        way=plan.way,
        nodes=_names_of_ganeti_nodes(plan, plan.nodes),
        is_enough=plan.is_enough,
        offline_candidates=_names_of_ganeti_nodes(plan, plan.offline_candidates),
        online_candidates=_names_of_ganeti_nodes(plan, plan.online_candidates),
        script=ganeti_squeeze_shell_commands(plan, cluster),
        original=ganeti_text_file.format_ganeti_text(cluster),
        squeezed=ganeti_text_file.format_ganeti_text(plan.after),
        warnings=describe_unaccounted_ganeti_use(cluster),
    )


def write_text_file(text: str, path: str) -> None:
    """Write a text file; raises StandardOutputUnwritable if this fails."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StandardOutputUnwritable(f"{path}: {error.strerror}") from error


def _names_of_ganeti_nodes(plan: GanetiSqueezePlan, nodes: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(plan.after.nodes[at].name for at in nodes)
