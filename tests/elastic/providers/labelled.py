"""Libcloud's in-memory driver, extended by tags.

The provider refuses the dummy driver itself, because it has no tags. `trouble` has the error of each call.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

from libcloud.common.exceptions import BaseHTTPError
from libcloud.compute.drivers.dummy import DummyNodeDriver


class Labelled(DummyNodeDriver):  # type: ignore[misc]  # libcloud has no types for it
    def __init__(self, key: str, region: str = "", timeout: float = 0, **others: str) -> None:
        super().__init__(key)
        self.does = True
        self.given = {"region": region, "timeout": timeout, **others}
        self.made = 0
        self.keeps: Callable[[dict[str, str]], Any] = dict  # how labels are told afterwards
        self.meeting: Barrier | None = None
        self.have_met = False
        self.trouble: dict[str, BaseHTTPError] = {}
        for node in self.list_nodes():
            self.destroy_node(node)

    def _check(self, verb: str) -> None:
        if verb in self.trouble:
            raise self.trouble[verb]

    def list_nodes(self) -> Any:
        self._check("list")
        return super().list_nodes()

    def create_node(self, name: str, size: Any, image: Any, ex_metadata: dict[str, str]) -> Any:
        self._check("create")
        if self.meeting:
            with suppress(BrokenBarrierError):
                self.meeting.wait(0.3)
                self.have_met = True
        node = super().create_node(name=name, size=size, image=image)
        self.made += 1
        node.id, node.name = f"node-{self.made}", name
        node.extra = {"metadata": self.keeps(ex_metadata)}
        return node

    def destroy_node(self, node: Any) -> bool:
        return bool(self.does and super().destroy_node(node))
