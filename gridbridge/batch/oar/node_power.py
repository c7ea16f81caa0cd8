"""Has OAR's nodes rest and work again (oarnodesetting(1)), and keeps their tags as a property.

A node that is absent with MAY_REST as its available_upto can be woken, and oarsub takes jobs for
it. Setting a node absent kills what runs there: so it is drained before, and looked at when every
pass of the scheduler that may not have seen that is over.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gridbridge.batch import as_root_call
from gridbridge.batch.oar import oar_commands, server_queries
from gridbridge.batch.oar.oar_commands import Argv
from gridbridge.batch.oar.oar_output import MAY_REST, OarResource, read_cluster, read_resources
from gridbridge.batch.oar.submit import call
from gridbridge.model.route import OarServer

SETTING, PROPERTY = "/usr/sbin/oarnodesetting", "/usr/sbin/oarproperty"
TAGS, BETWEEN = "gb_tags", "+"
TAG_WORDS = re.compile(r"[A-Za-z0-9:._+-]{0,200}")  # OAR writes it into SQL as it is
OWNER = re.compile(
    r"""^[ \t]*(?:ENERGY_SAVING_INTERNAL[ \t]*=[ \t]*["']?yes"""
    r"""|SCHEDULER_NODE_MANAGER_(?:WAKE_UP|SLEEP)_CMD[ \t]*=[ \t]*["']?[^"'\s])""",
    re.MULTILINE,
)
# What root does for the balancer, by a word and the name of a node.
SETTINGS: Mapping[str, Argv] = {
    "drain": ("-d", "on"),
    "settle": ("-s", "Alive"),
    "halt": ("-s", "Absent", "-n", "-p", f"available_upto={MAY_REST}"),
    "undrain": ("-d", "off"),
    "open": ("-s", "Alive", "-d", "off"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OarNodeFacts:
    """What OAR tells of one node now."""

    is_listed: bool
    is_idle: bool  # no job that counts has it, or has reserved it
    is_drained: bool
    is_alive: bool
    is_halted: bool
    is_settled: bool  # no change of its state is under way


def setting(word: str, host: str) -> Argv:
    """Return the command line by which root does a thing to a node."""
    return (SETTING, "-h", host, *SETTINGS[word])


def tagging(host: str, text: str) -> tuple[Argv, ...]:
    """Return those by which root has a node keep a text as its tags; the property is made first."""
    declaration = f"{PROPERTY} -l | grep -qx {TAGS} || {PROPERTY} -a {TAGS} -c"
    return (("/bin/sh", "-c", declaration), (SETTING, "-h", host, "-p", f"{TAGS}={text}"))


def saves_itself(configuration: str) -> str:
    """Return the line of oar.conf by which OAR halts or wakes nodes itself; empty: it does not."""
    match = OWNER.search(configuration)
    return match.group().strip() if match else ""


def as_root(*words: str) -> None:
    """Have root do one of its verbs about a node here; CommandFailed when it does not."""
    as_root_call.as_root("node", *words)


def look(server: OarServer, host: str) -> OarNodeFacts:
    """Ask OAR about a node; best-effort jobs don't count."""
    return looked(call(server, server_queries.busy(server)).checked().stdout, host)


def looked(document: bytes, host: str) -> OarNodeFacts:
    """Read what the whole answer tells of a node."""
    resources, jobs = read_cluster(document)
    own = [resource for resource in resources if resource.host == host and resource.is_slot]
    ids = {resource.id for resource in own}
    occupied = (
        job.resources | job.reserved for job in jobs if not (job.is_over or job.is_besteffort)
    )
    return OarNodeFacts(
        is_listed=bool(own),
        is_idle=all(ids.isdisjoint(job_resources) for job_resources in occupied),
        is_drained=all(resource.is_drained for resource in own),
        is_alive=bool(own) and all(resource.is_alive for resource in own),
        is_halted=bool(own) and all(resource.is_halted for resource in own),
        is_settled=all(resource.is_settled for resource in own),
    )


def tags(server: OarServer) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of all nodes that have some; of one in maintenance none, nobody wakes it."""
    return read_tags(call(server, oar_commands.show_nodes(server)).checked().stdout)


def hosts(server: OarServer) -> tuple[str, ...]:
    """Return all nodes."""
    resources = read_resources(call(server, oar_commands.show_nodes(server)).checked().stdout)
    return tuple(dict.fromkeys(resource.host for resource in resources))


def read_tags(document: bytes) -> Mapping[str, tuple[str, ...]]:
    """Read them; available_upto says what may not be woken."""
    return {
        host: tuple(text.split(BETWEEN)) for host, text in _tags_of_hosts(read_resources(document))
    }


def _tags_of_hosts(resources: list[OarResource]) -> Iterator[tuple[str, str]]:
    for resource in resources:
        if resource.tags and (resource.is_halted or resource.is_alive):
            yield resource.host, resource.tags


def set_tags(server: OarServer, host: str, host_tags: tuple[str, ...]) -> None:
    """Give a node exactly these tags; CommandFailed when that is refused."""
    del server  # root asks the one that is here
    as_root("tag", host, *filter(None, (BETWEEN.join(host_tags),)))
