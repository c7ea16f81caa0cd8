"""The requests to the power service: create, destroy, list, start and stop nodes."""

import re
import secrets
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from gridlab.errors import LabError
from gridlab.output import say
from gridlab.provider import faults, machines, nodes
from gridlab.provider.faults import Fault, Faults
from gridlab.provider.nodes import Node, State
from gridlab.topology import RESERVE

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
SOMEBODY_ELSES = tuple(
    {
        "id": f"lab-other{number}",
        "name": name,
        "address": f"10.77.0.{200 + number}",
        "state": State.RUNNING.value,
        "tags": tags,
        "host_key": "",
        "created": "2026-01-01T00:00:00+00:00",
    }
    for number, (name, tags) in enumerate((("web-1", {"owner": "somebody-else"}), ("alpha-n99", {})), start=1)
)


class Refused(Exception):
    """A refused request, with its HTTP status."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Service:
    """The rented nodes; `_work` is locked while a host starts or ends."""

    def __init__(self) -> None:
        self._nodes = {node.id: node for node in nodes.load()}
        self._guard = threading.Lock()
        self._work = threading.Lock()

    def resume(self) -> None:
        """Boot the nodes that were pending when the service ended."""
        for node in tuple(self._nodes.values()):
            if node.state is State.PENDING:
                self._boot_later(node, faults.current())

    def create(self, name: str, tags: Mapping[str, str]) -> dict[str, Any]:
        """Rent a node, which is pending until its machine has booted."""
        current = faults.current()
        if not NAME.fullmatch(name):
            raise Refused(HTTPStatus.BAD_REQUEST, f"name {name!r}: small letters, digits and -")
        if Fault.CAPACITY in current:
            raise Refused(HTTPStatus.CONFLICT, "no capacity left")
        with self._guard:
            node = _new(name, self._free_host(name), tags)
            if Fault.LIE in current:
                return {**nodes.shown(node), "state": State.RUNNING.value}
            self._keep(node)
        self._boot_later(node, current)
        return nodes.shown(node)

    def listed(self) -> list[dict[str, Any]]:
        """Return all nodes, oldest first, as changed by the present faults."""
        current = faults.current()
        with self._guard:
            known = [nodes.shown(node) for node in self._nodes.values()]
        if Fault.PARTIAL in current:
            known = known[: len(known) // 2]
        return [*known, *(SOMEBODY_ELSES if Fault.OTHERS in current else ())]

    def destroy(self, identifier: str) -> None:
        """End a node and delete its disk; a missing node is no error."""
        with self._work:
            node = self._nodes.get(identifier)
            if node is None:
                return
            machines.throw_away(node)
            with self._guard:
                del self._nodes[identifier]
                nodes.save(self._nodes.values())

    def start(self, identifier: str) -> dict[str, Any]:
        """Switch a node on after a stop or a power cut."""
        node = replace(self._known(identifier), state=State.PENDING)
        with self._guard:
            self._keep(node)
        self._boot_later(node, faults.current())
        return nodes.shown(node)

    def stop(self, identifier: str) -> dict[str, Any]:
        """Switch a node off cleanly; its disk stays."""
        with self._work:
            node = self._known(identifier)
            machines.stop(node)
            return self._settle(node, State.STOPPED)

    def _known(self, identifier: str) -> Node:
        if identifier not in self._nodes:
            raise Refused(HTTPStatus.NOT_FOUND, f"no node {identifier}")
        return self._nodes[identifier]

    def _keep(self, node: Node) -> None:
        self._nodes[node.id] = node
        nodes.save(self._nodes.values())

    def _settle(self, node: Node, state: State) -> dict[str, Any]:
        with self._guard:
            settled = replace(node, state=state)
            self._keep(settled)
            return nodes.shown(settled)

    def _free_host(self, name: str) -> str:
        """Return a free reserve host, preferably of the same name."""
        taken = {node.host for node in self._nodes.values()}
        free = [host.name for host in RESERVE if host.name not in taken]
        free = [host for host in free if machines.is_free(host)]
        if not free:
            raise Refused(HTTPStatus.CONFLICT, f"no capacity left: {len(RESERVE)} nodes at most")
        return name if name in free else free[0]

    def _boot_later(self, node: Node, current: Faults) -> None:
        if Fault.NEVER not in current:
            timer = threading.Timer(current.get(Fault.SLOW, 0.0), self._boot, [node.id])
            timer.daemon = True
            timer.start()

    def _boot(self, identifier: str) -> None:
        with self._work:
            node = self._nodes.get(identifier)
            if node is None or node.state is not State.PENDING:
                return
            try:
                machines.boot(node)
            except (LabError, OSError, subprocess.TimeoutExpired) as error:
                say(f"{identifier}: {error}")
                return
            self._settle(node, State.RUNNING)


def _new(name: str, host: str, tags: Mapping[str, str]) -> Node:
    return Node(
        id=f"lab-{secrets.token_hex(4)}",
        name=name,
        host=host,
        state=State.PENDING,
        tags=tags,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
