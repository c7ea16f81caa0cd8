"""A provider that is any program: JSON on its standard input, JSON on its standard output.

It is called as the lab's power-node is (docs/elastic.md, "A program of your own"). The exit status
tells what came of a call, as in sysexits.h: 0, 69 (EX_UNAVAILABLE) and 75 (EX_TEMPFAIL).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.errors import CommandFailed, NoCapacity, NotGranted, ParseError, ProviderFailed
from gridbridge.model.elastic.machines import POOL_TAG, Machine
from gridbridge.providers import reading
from gridbridge.shell import runner

LATER, NO_CAPACITY = 75, 69
MOST_BYTES = 16 << 20  # a list of 20,000 nodes is shorter
WORDS = 200  # characters of what a program says last


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandProvider:
    """Machines that a program makes and removes."""

    program: str
    timeout_s: float
    env: Mapping[str, str]

    def create(self, name: str, tags: Mapping[str, str]) -> Machine:
        """Have a machine made; an answer that tells of another one is no answer."""
        wish = {"name": name, "pool": tags.get(POOL_TAG, ""), "tags": dict(tags)}
        printed = self._call("create", wish)
        try:
            made = reading.machine(reading.document(printed))
        except ParseError as error:
            raise ProviderFailed(f"{self._said('create')}: {error}") from error
        if made.name != name or not tags.items() <= made.tags.items():
            raise ProviderFailed(f"{self._said('create')}: not the node that was asked for")
        return made

    def destroy(self, machine: Machine) -> None:
        """Have it removed with its disk."""
        self._call("destroy", {"id": machine.id})

    def machines(self) -> tuple[Machine, ...]:
        """Return all machines; a list of which anything is wrong is refused whole."""
        printed = self._call("list", {})
        try:
            return reading.machines(printed)
        except ParseError as error:
            raise ProviderFailed(f"{self._said('list')}: {error}") from error

    def start(self, machine: Machine) -> None:
        """Switch it on."""
        self._call("start", {"id": machine.id})

    def stop(self, machine: Machine) -> None:
        """Switch it off and keep its disk."""
        self._call("stop", {"id": machine.id})

    def _call(self, verb: str, wish: Mapping[str, object]) -> bytes:
        """Return what the program printed; its end decides what is raised."""
        argv, stdin = (self.program, verb), json.dumps(wish).encode() + b"\n"
        try:
            done = runner.run(argv, dict(self.env), self.timeout_s, stdin, MOST_BYTES)
            return done.checked().stdout
        except CommandFailed as failed:
            told = f"{self._said(verb)}: {shown(failed.words)}"
            if failed.status == NO_CAPACITY:
                raise NoCapacity(told) from failed
            if failed.status == LATER or failed.transient:
                raise NotGranted(told) from failed
            raise ProviderFailed(told) from failed

    def _said(self, verb: str) -> str:
        return f"{self.program} {verb}"


def shown(words: str) -> str:
    """Return a program's words as one line of what can be printed."""
    return "".join(sign if sign.isprintable() else "?" for sign in words)[:WORDS]
