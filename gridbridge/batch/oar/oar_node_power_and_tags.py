"""Halts and wakes OAR's nodes (oarnodesetting(1)), and stores tags as a property of nodes.

An absent node whose available_upto is MAY_REST can be woken, and oarsub accepts jobs for the node. A node that is set
absent loses its jobs. So the caller first drains the node, and checks the node again after the next scheduler pass.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.batch import privileged_helper_calls
from gridbridge.batch.oar import oar_command_line_builders, oar_server_query_commands
from gridbridge.batch.oar.oar_command_line_builders import Argv
from gridbridge.batch.oar.oar_output_parser import (
    MAY_REST,
    parse_oar_resources,
    parse_oarstat_jobs,
    split_combined_oar_answer,
)
from gridbridge.batch.oar.oar_programs import run_client
from gridbridge.model.transfer_route import OarServerAccessSettings

SETTING, PROPERTY = "/usr/sbin/oarnodesetting", "/usr/sbin/oarproperty"
TAGS, BETWEEN = "gb_tags", "+"
TAG_WORDS = re.compile(r"[A-Za-z0-9:._+-]{0,200}")  # permitted tags: OAR pastes tags unquoted into SQL
OWNER = re.compile(
    r"""^[ \t]*(?:ENERGY_SAVING_INTERNAL[ \t]*=[ \t]*["']?yes"""
    r"""|SCHEDULER_NODE_MANAGER_(?:WAKE_UP|SLEEP)_CMD[ \t]*=[ \t]*["']?[^"'\s])""",
    re.MULTILINE,
)
# options of oarnodesetting for each request `gridbridge-as-root node`
SETTINGS: Mapping[str, Argv] = {
    "drain": ("-d", "on"),
    "settle": ("-s", "Alive"),
    "halt": ("-s", "Absent", "-n", "-p", f"available_upto={MAY_REST}"),
    "undrain": ("-d", "off"),
    "open": ("-s", "Alive", "-d", "off"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OarNodeState:
    is_listed: bool
    is_idle: bool  # whether no ordinary job uses or has reserved the node
    is_drained: bool
    is_alive: bool
    is_halted: bool
    is_settled: bool  # whether OAR has carried out all state changes


def set_oar_node_state_command(word: str, host: str) -> Argv:
    return (SETTING, "-h", host, *SETTINGS[word])


def store_oar_node_tags_commands(host: str, text: str) -> tuple[Argv, ...]:
    """Return the commands by which root stores a node's tags; the first command creates the property."""
    declaration = f"{PROPERTY} -l | grep -qx {TAGS} || {PROPERTY} -a {TAGS} -c"
    return (("/bin/sh", "-c", declaration), (SETTING, "-h", host, "-p", f"{TAGS}={text}"))


def find_oar_energy_saving_setting(configuration: str) -> str:
    """Return the line of oar.conf that lets OAR itself halt nodes; empty if there is no such line."""
    match = OWNER.search(configuration)
    return match.group().strip() if match else ""


def oar_node_root_commands(words: tuple[str, ...]) -> tuple[Argv, ...]:
    """Return the commands with which root carries out a verb on an OAR node; empty for an unknown verb."""
    if len(words) == 2 and words[0] in SETTINGS:
        return (set_oar_node_state_command(*words),)
    if len(words) in (2, 3) and words[0] == "tag":
        return store_oar_node_tags_commands(words[1], "".join(words[2:]))
    return ()


def run_oar_node_verb_as_root(*words: str) -> None:
    """Run a `node` request of gridbridge-as-root; raise CommandFailed on failure."""
    privileged_helper_calls.run_gridbridge_as_root("node", *words)


def query_oar_node_state(server: OarServerAccessSettings, host: str) -> OarNodeState:
    """Query a node's state; a node with only best-effort jobs is idle."""
    return parse_oar_node_state(
        run_client(server, oar_server_query_commands.oar_busy_nodes_query_argv(server)).require_success().stdout, host
    )


def parse_oar_node_state(document: bytes, host: str) -> OarNodeState:
    nodes, listed, *_ = split_combined_oar_answer(document)
    own = [resource for resource in parse_oar_resources(nodes) if resource.host == host and resource.is_slot]
    ids = {resource.id for resource in own}
    occupied = (
        job.resources | job.reserved for job in parse_oarstat_jobs(listed) if not (job.has_ended or job.is_besteffort)
    )
    return OarNodeState(
        is_listed=bool(own),
        is_idle=all(ids.isdisjoint(job_resources) for job_resources in occupied),
        is_drained=all(resource.is_drained for resource in own),
        is_alive=bool(own) and all(resource.is_alive for resource in own),
        is_halted=bool(own) and all(resource.is_halted for resource in own),
        is_settled=all(resource.is_settled for resource in own),
    )


def query_host_tags(server: OarServerAccessSettings) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of all tagged nodes, without nodes in maintenance."""
    return parse_oar_node_tags(
        run_client(server, oar_command_line_builders.show_nodes_argv(server)).require_success().stdout
    )


def list_execution_hosts(server: OarServerAccessSettings) -> tuple[str, ...]:
    resources = parse_oar_resources(
        run_client(server, oar_command_line_builders.show_nodes_argv(server)).require_success().stdout
    )
    return tuple(dict.fromkeys(resource.host for resource in resources))


def parse_oar_node_tags(document: bytes) -> Mapping[str, tuple[str, ...]]:
    """Parse the tags of nodes that are alive or can be woken."""
    usable = (node for node in parse_oar_resources(document) if node.tags and (node.is_halted or node.is_alive))
    return {node.host: tuple(node.tags.split(BETWEEN)) for node in usable}


def replace_host_tags(server: OarServerAccessSettings, host: str, host_tags: tuple[str, ...]) -> None:
    """Replace all tags of a node; raise CommandFailed if root's command fails."""
    run_oar_node_verb_as_root("tag", host, *filter(None, (BETWEEN.join(host_tags),)))
