"""Hosts of the site's own, which are switched on and off but never made.

By their management controllers (ipmitool(1)), by a packet that wakes a network card, or by any
program. A host whose state can't be told is listed as unknown, and never left out.
"""

import logging
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from gridbridge.elastic.providers import credentials
from gridbridge.elastic.providers import provider_program as program
from gridbridge.errors import NoCapacity, NotGranted, ProviderFailed, plain_words
from gridbridge.model.elastic.balance_sections import (
    PoweredHostSection,
    PowerSwitchMethod,
    ProviderSection,
)
from gridbridge.model.elastic.elastic_nodes import (
    OWNER_TAG,
    POOL_TAG,
    ProviderMachine,
    ProviderMachineState,
)

AT_ONCE = 32  # hosts whose states are asked for side by side
IPMITOOL = "/usr/bin/ipmitool"
IPMI_PORT = "623"
CHASSIS = MappingProxyType(  # what `chassis power status` prints
    {
        b"Chassis Power is on": ProviderMachineState.RUNNING,
        b"Chassis Power is off": ProviderMachineState.STOPPED,
    }
)
SAID = MappingProxyType({b"on": ProviderMachineState.RUNNING, b"off": ProviderMachineState.STOPPED})
DISCARD = "9"  # the port to which such packets are usually sent

_log = logging.getLogger(__name__)


Untold = Callable[[str, str], None]  # takes a host that does not tell its state, and why


def log_untold(host: str, why: str) -> None:
    """Log it, as a round does."""
    _log.warning("event=no_state host=%s why=%r", host, why)


class PowerSwitch(Protocol):
    """Turns one host on and off."""

    def on(self) -> None:
        """Switch it on; it may be on already."""
        ...

    def off(self) -> None:
        """Have it shut down; it may be off already."""
        ...

    def state(self) -> ProviderMachineState:
        """Ask whether it is on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerProvider:
    """The hosts of a section."""

    switches: Mapping[str, PowerSwitch]
    cluster: str
    pool: str = ""  # under which the balancer keeps them
    tell: Untold = log_untold

    def machines(self) -> tuple[ProviderMachine, ...]:
        """Return all hosts; those that don't tell their state have an unknown one, and are told."""
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            return tuple(pool.map(self._machine, self.switches))

    def start(self, machine: ProviderMachine) -> None:
        """Switch it on."""
        self._switch("start", machine).on()

    def stop(self, machine: ProviderMachine) -> None:
        """Have it shut down."""
        self._switch("stop", machine).off()

    def _machine(self, name: str) -> ProviderMachine:
        try:
            state = self.switches[name].state()
        except (NoCapacity, NotGranted, ProviderFailed) as error:
            self.tell(name, str(error))
            state = ProviderMachineState.UNKNOWN
        tags = {OWNER_TAG: self.cluster, POOL_TAG: self.pool}
        return ProviderMachine(id=name, name=name, state=state, tags=tags)

    def _switch(self, verb: str, machine: ProviderMachine) -> PowerSwitch:
        if machine.id not in self.switches:
            raise ProviderFailed(f"power {verb} {machine.id}: no host of this provider")
        return self.switches[machine.id]


def _state_of(printed: bytes, words: Mapping[bytes, ProviderMachineState]) -> ProviderMachineState:
    """Return the state that a program printed; ProviderFailed for any other words."""
    state = words.get(printed.strip())
    if state is None:
        text = program.shown(printed.decode(errors="replace").strip())
        right = " or ".join(word.decode() for word in words)
        raise ProviderFailed(f"its state is told as {text!r}; expected {right}")
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementController:
    """A host by its management controller."""

    bmc: str
    user: str
    password_file: str
    timeout_s: float
    tool: str = IPMITOOL

    def on(self) -> None:
        """Switch it on."""
        self._ask("on")

    def off(self) -> None:
        """Press its button once: its system shuts down and keeps its disks whole."""
        self._ask("soft")

    def state(self) -> ProviderMachineState:
        """Ask whether it has power."""
        return _state_of(self._ask("status"), CHASSIS)

    def _ask(self, word: str) -> bytes:
        """Return ipmitool's answer; it has one exit status for refused and for not reached."""
        credentials.secret(self.password_file)
        host, _, port = self.bmc.partition(":")
        connection = ("-I", "lanplus", "-H", host, "-p", port or IPMI_PORT)
        argv = (self.tool, *connection, "-U", self.user, "-f", self.password_file)
        env = program.environment()
        try:
            return program.answer((*argv, "chassis", "power", word), env, self.timeout_s)
        except ProviderFailed as error:
            raise NotGranted(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ByProgram:
    """A host by a program: `on HOST`, `off HOST`, and `status HOST`, which prints on or off."""

    program: str
    host: str
    timeout_s: float

    def on(self) -> None:
        """Switch it on."""
        self._ask("on")

    def off(self) -> None:
        """Have it shut down."""
        self._ask("off")

    def state(self) -> ProviderMachineState:
        """Ask whether it is on."""
        return _state_of(self._ask("status"), SAID)

    def _ask(self, word: str) -> bytes:
        argv = (self.program, word, self.host)
        return program.answer(argv, program.environment(), self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeOnLanHost:
    """A host whose network card wakes it; what else there is to do, a program does."""

    host: str
    mac: str
    broadcast: str
    told: ByProgram | None

    def on(self) -> None:
        """Send the packet; whether it was heard, the state tells later."""
        address, _, port = self.broadcast.partition(":")
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                sender.sendto(magic_packet(self.mac), (address, int(port or DISCARD)))
        except (OSError, OverflowError) as error:  # no such port
            raise NotGranted(
                f"power start {self.host}: {self.broadcast}: {plain_words(error)}"
            ) from error

    def off(self) -> None:
        """Have the program do it; a packet can't."""
        if self.told is None:
            right = "a packet only wakes; its provider needs a program"
            raise ProviderFailed(f"power stop {self.host}: {right}")
        self.told.off()

    def state(self) -> ProviderMachineState:
        """Ask the program; nobody else knows."""
        return self.told.state() if self.told else ProviderMachineState.UNKNOWN


def magic_packet(mac: str) -> bytes:
    """Return what wakes a network card: six times FF, then its address sixteen times."""
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16


def made(
    section: ProviderSection,
    hosts: Mapping[str, PoweredHostSection],
    cluster: str,
    pool: str,
    note_untold: Untold = log_untold,
) -> PowerProvider:
    """Return the provider of all hosts of a section, of which it has the name as their pool."""
    make = MAKERS[section.way]
    switches = {name: make(section, name, host) for name, host in hosts.items()}
    return PowerProvider(switches=switches, cluster=cluster, pool=pool, tell=note_untold)


def _controller(section: ProviderSection, _: str, host: PoweredHostSection) -> PowerSwitch:
    return ManagementController(
        bmc=host.bmc,
        user=host.user,
        password_file=host.password_file,
        timeout_s=section.timeout_s,
    )


def _by_program(section: ProviderSection, name: str, _: PoweredHostSection) -> ByProgram:
    own = program.trusted(section.program)
    return ByProgram(program=own, host=name, timeout_s=section.timeout_s)


def _woken(section: ProviderSection, name: str, host: PoweredHostSection) -> PowerSwitch:
    by_program = _by_program(section, name, host) if section.program else None
    return WakeOnLanHost(host=name, mac=host.mac, broadcast=section.broadcast, told=by_program)


MAKERS: Mapping[
    PowerSwitchMethod, Callable[[ProviderSection, str, PoweredHostSection], PowerSwitch]
] = MappingProxyType(
    {
        PowerSwitchMethod.IPMI: _controller,
        PowerSwitchMethod.WAKE: _woken,
        PowerSwitchMethod.COMMAND: _by_program,
    }
)
