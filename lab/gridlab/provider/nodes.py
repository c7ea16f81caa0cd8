"""The rented nodes, each on a reserve host, stored in a file."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from gridlab import keys, paths
from gridlab.topology import HOST_BY_NAME, Host

FILE = paths.PROVIDER / "nodes"


class State(StrEnum):
    """The state of a node as the service assumes it, even after a power cut by others."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A rented machine: `host` is the lab's name, `name` the renter's."""

    id: str
    name: str
    host: str
    state: State
    tags: Mapping[str, str]
    created: str

    @property
    def place(self) -> Host:
        """The reserve host on which the node runs."""
        return HOST_BY_NAME[self.host]


def shown(node: Node) -> dict[str, Any]:
    """Return a node as the renter sees it; the key only once the machine has booted."""
    is_known = node.state is not State.PENDING
    return {
        "id": node.id,
        "name": node.name,
        "address": node.place.address,
        "state": node.state.value,
        "tags": dict(node.tags),
        "host_key": keys.public_host_key(node.place) if is_known else "",
        "created": node.created,
    }


def load(path: Path = FILE) -> tuple[Node, ...]:
    """Return the rented nodes."""
    try:
        rows = json.loads(path.read_text())
    except FileNotFoundError:
        return ()
    return tuple(Node(**{**row, "state": State(row["state"])}) for row in rows)


def save(nodes: Iterable[Node], path: Path = FILE) -> None:
    """Store the nodes; a reader gets the old or the new ones."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(json.dumps([asdict(node) for node in nodes], indent=1))
    beside.rename(path)
