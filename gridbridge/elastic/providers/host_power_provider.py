"""Switches hosts of the site on and off by IPMI, Wake-on-LAN, or a program of the site."""

import logging
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from gridbridge.elastic.providers import site_program_provider
from gridbridge.errors import ProviderOutcomeUnknown, ProviderOutOfMachines, ProviderPermanentFailure, describe_error
from gridbridge.model.elastic.balancer_config_sections import (
    HostPowerSection,
    MachineProviderSection,
    PowerSwitchMethod,
)
from gridbridge.model.elastic.elastic_nodes import OWNER_TAG, POOL_TAG, ProviderMachine, ProviderMachineState

AT_ONCE = 32  # limit of hosts queried in parallel
IPMITOOL = "/usr/bin/ipmitool"
IPMI_PORT = "623"
CHASSIS = MappingProxyType(  # output of `ipmitool chassis power status`
    {b"Chassis Power is on": ProviderMachineState.RUNNING, b"Chassis Power is off": ProviderMachineState.STOPPED}
)
SAID = MappingProxyType({b"on": ProviderMachineState.RUNNING, b"off": ProviderMachineState.STOPPED})
DISCARD = "9"  # the usual port of Wake-on-LAN packets

_log = logging.getLogger(__name__)

ReportUnknownPower = Callable[[str, str], None]  # arguments: a host of unknown power state, and the reason


def log_unknown_power_state(host: str, why: str) -> None:
    _log.warning("event=no_state host=%s why=%r", host, why)


class SingleHostPowerSwitch(Protocol):
    def switch_host_on(self) -> None:
        """Switch the host on; nothing happens to a host that is on."""

    def switch_host_off(self) -> None:
        """Shut the host down; nothing happens to a host that is off."""

    def query_power_state(self) -> ProviderMachineState:
        """Query whether the host is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPowerProvider:
    """Switches the hosts of one [provider.NAME] section of kind power."""

    switches: Mapping[str, SingleHostPowerSwitch]
    cluster: str
    pool: str = ""
    tell: ReportUnknownPower = log_unknown_power_state

    def list_machines(self) -> tuple[ProviderMachine, ...]:
        """Return all hosts, and report the hosts with unknown power state."""
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            return tuple(pool.map(self._machine_of_host, self.switches))

    def power_on_host(self, machine: ProviderMachine) -> None:
        self._power_switch_of_machine("start", machine).switch_host_on()

    def power_off_host(self, machine: ProviderMachine) -> None:
        self._power_switch_of_machine("stop", machine).switch_host_off()

    def _machine_of_host(self, name: str) -> ProviderMachine:
        try:
            state = self.switches[name].query_power_state()
        except (ProviderOutOfMachines, ProviderOutcomeUnknown, ProviderPermanentFailure) as error:
            self.tell(name, str(error))
            state = ProviderMachineState.UNKNOWN
        tags = {OWNER_TAG: self.cluster, POOL_TAG: self.pool}
        return ProviderMachine(id=name, name=name, state=state, tags=tags)

    def _power_switch_of_machine(self, verb: str, machine: ProviderMachine) -> SingleHostPowerSwitch:
        if machine.id not in self.switches:
            raise ProviderPermanentFailure(f"power {verb} {machine.id}: the provider has no such host")
        return self.switches[machine.id]


def _power_state_of_program_output(printed: bytes, words: Mapping[bytes, ProviderMachineState]) -> ProviderMachineState:
    state = words.get(printed.strip())
    if state is None:
        text = site_program_provider.format_program_output_as_line(printed.decode(errors="replace").strip())
        right = " or ".join(word.decode() for word in words)
        raise ProviderPermanentFailure(f"the host's state is {text!r}; expected {right}")
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class IpmiPowerSwitch:
    """Switches a host through its management controller, with ipmitool(1)."""

    bmc: str
    user: str
    password_file: str
    timeout_s: float
    tool: str = IPMITOOL

    def switch_host_on(self) -> None:
        self._run_power_command("on")

    def switch_host_off(self) -> None:
        """Request a soft shutdown of the host, which leaves the disks clean."""
        self._run_power_command("soft")

    def query_power_state(self) -> ProviderMachineState:
        return _power_state_of_program_output(self._run_power_command("status"), CHASSIS)

    def _run_power_command(self, word: str) -> bytes:
        """Run ipmitool; a refusal looks like a silent controller, so it also raises ProviderOutcomeUnknown."""
        site_program_provider.read_secret_file(self.password_file)
        host, _, port = self.bmc.partition(":")
        connection = ("-I", "lanplus", "-H", host, "-p", port or IPMI_PORT)
        argv = (self.tool, *connection, "-U", self.user, "-f", self.password_file)
        try:
            return site_program_provider.run_provider_program((*argv, "chassis", "power", word), self.timeout_s)
        except ProviderPermanentFailure as error:
            raise ProviderOutcomeUnknown(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPowerSwitch:
    """Switches a host by a program of the site: `on HOST`, `off HOST`, `status HOST`."""

    program: str
    host: str
    timeout_s: float

    def switch_host_on(self) -> None:
        self._run_power_command("on")

    def switch_host_off(self) -> None:
        self._run_power_command("off")

    def query_power_state(self) -> ProviderMachineState:
        return _power_state_of_program_output(self._run_power_command("status"), SAID)

    def _run_power_command(self, word: str) -> bytes:
        argv = (self.program, word, self.host)
        return site_program_provider.run_provider_program(argv, self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeOnLanPowerSwitch:
    """Wakes a host by a network packet; an optional program shuts the host down."""

    host: str
    mac: str
    broadcast: str
    told: ProgramPowerSwitch | None

    def switch_host_on(self) -> None:
        """Send the wake packet; later queries show whether the host is on."""
        address, _, port = self.broadcast.partition(":")
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                sender.sendto(wake_on_lan_packet(self.mac), (address, int(port or DISCARD)))
        except (OSError, OverflowError) as error:  # OverflowError: bad port
            raise ProviderOutcomeUnknown(
                f"power start {self.host}: {self.broadcast}: {describe_error(error)}"
            ) from error

    def switch_host_off(self) -> None:
        """Shut the host down by a program, because no network packet can shut a host down."""
        if self.told is None:
            right = "a network packet can only wake; expected a key `program` in the provider's section"
            raise ProviderPermanentFailure(f"power stop {self.host}: {right}")
        self.told.switch_host_off()

    def query_power_state(self) -> ProviderMachineState:
        """Query the program for the host's power state; unknown without a program."""
        return self.told.query_power_state() if self.told else ProviderMachineState.UNKNOWN


def wake_on_lan_packet(mac: str) -> bytes:
    """Return a Wake-on-LAN packet: six bytes FF, then sixteen times the MAC address."""
    return b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) * 16


def make_host_power_provider(
    section: MachineProviderSection,
    hosts: Mapping[str, HostPowerSection],
    cluster: str,
    pool: str,
    note_untold: ReportUnknownPower = log_unknown_power_state,
) -> HostPowerProvider:
    """Return the provider that switches the hosts of one [provider.NAME] on and off; `pool` is NAME."""
    switches = {name: _make_power_switch(section, name, host) for name, host in hosts.items()}
    return HostPowerProvider(switches=switches, cluster=cluster, pool=pool, tell=note_untold)


def _make_power_switch(section: MachineProviderSection, name: str, host: HostPowerSection) -> SingleHostPowerSwitch:
    limit_s = section.timeout_s
    if section.way is PowerSwitchMethod.IPMI:
        return IpmiPowerSwitch(bmc=host.bmc, user=host.user, password_file=host.password_file, timeout_s=limit_s)
    by_program = None
    if section.program or section.way is PowerSwitchMethod.COMMAND:
        program = site_program_provider.require_trusted_provider_file(section.program)
        by_program = ProgramPowerSwitch(program=program, host=name, timeout_s=limit_s)
    if by_program and section.way is PowerSwitchMethod.COMMAND:
        return by_program
    return WakeOnLanPowerSwitch(host=name, mac=host.mac, broadcast=section.broadcast, told=by_program)
