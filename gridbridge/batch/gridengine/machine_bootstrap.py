"""Turns a new machine into an execution host by repeatable sh scripts of conf/bootstrap, run by ssh."""

import grp
import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gridbridge.errors import ConfigError, HostNotReached
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import MachineToJoinCell
from gridbridge.model.fixed_paths import BOOTSTRAP
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from gridbridge.shell import safe_files
from gridbridge.shell.local_host_facts import resolve_host_address, this_host_name
from gridbridge.shell.optional_libraries import missing_library_message
from gridbridge.shell.program_runs import quote_for_sh
from gridbridge.shell.ssh import CLIENT, FAILED

START = "execd"  # the last bootstrap step
SERVER = re.compile("(?:(HOST):|//(HOST))/".replace("HOST", "[A-Za-z0-9][A-Za-z0-9.-]*")).match
MOST_BYTES = 1 << 16  # size limit of a step's script, and of the mounts file


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMachineBootstrap:
    settings: MachineBootstrapSection
    cell: GridEngineCellAccessSettings
    port: int = 22
    folder: str = BOOTSTRAP

    def run_bootstrap_steps(self, node: MachineToJoinCell, hosts: Iterable[str]) -> None:
        """Run all bootstrap steps except the last, which starts the execution daemon.

        The machine gets the names and addresses of `hosts`. Raises SshAccessRejected for a wrong host key,
        HostNotReached while the machine does not answer, and CommandFailed.
        """
        steps = self.settings.steps.split()
        if steps:
            self._run_bootstrap_step(node, {step: TEXTS[step](self, node, hosts) for step in steps if step != START})

    def start_execution_daemon(self, node: MachineToJoinCell) -> None:
        """Start the execution daemon if the site configures this step; raises the errors of `run_bootstrap_steps`."""
        if START in self.settings.steps.split():
            self._run_bootstrap_step(node, {START: ""})

    def _run_bootstrap_step(self, node: MachineToJoinCell, texts: Mapping[str, str]) -> None:
        try:
            from gridbridge.shell import paramiko_login  # importing takes 200 ms
        except ImportError as error:
            why = missing_library_message("paramiko").encode()
            raise HostNotReached((CLIENT,), FAILED, stderr=why, host=node.address) from error

        with paramiko_login.log_in_to_new_machine_by_ssh(
            node.address, node.host_key, self.settings.user, self.settings.key, self.port
        ) as client:
            for step, text in texts.items():
                paramiko_login.run_on_new_machine_by_ssh(
                    client, self._bootstrap_step_command(step), text.encode(), self.settings.timeout_s
                )

    def _bootstrap_step_command(self, step: str) -> str:
        script = _read_bootstrap_file(f"{self.folder}/{step}", "steps")
        arguments = (self.cell.root, self.cell.cell) if step == START else ()
        return " ".join(("sudo -n /bin/sh -c", *map(quote_for_sh, (script, step, *arguments))))

    def _hosts_file_text_for_machine(self, node: MachineToJoinCell, hosts: Iterable[str]) -> str:
        addresses = {node.name: node.address}
        for host in (*hosts, this_host_name()):
            if host not in addresses and (address := resolve_host_address(host)):
                addresses[host] = address
        return "".join(f"{address} {name}\n" for name, address in addresses.items())

    def mounted_file_servers(self) -> tuple[str, ...]:
        """Return the file servers whose folders new machines mount; empty without step `mounts`."""
        matches = map(SERVER, self._configured_mount_lines() if "mounts" in self.settings.steps.split() else ())
        return tuple(match[1] or match[2] for match in matches if match)

    def _configured_mount_lines(self) -> list[str]:
        if not self.settings.mounts:
            return []
        lines = _read_bootstrap_file(self.settings.mounts, "mounts").splitlines()
        entries = [" ".join(line.split()) for line in lines]
        return [line for line in entries if line and not line.startswith("#")]


TEXTS: Mapping[str, Callable[[NewMachineBootstrap, MachineToJoinCell, Iterable[str]], str]] = {
    "names": NewMachineBootstrap._hosts_file_text_for_machine,
    "people": lambda bootstrap, *_: "".join(map(_account_line_for_bootstrap, bootstrap.settings.people.split())),
    "mounts": lambda bootstrap, *_: "".join(f"{line}\n" for line in bootstrap._configured_mount_lines()),
}


def _read_bootstrap_file(path: str, key: str) -> str:
    try:
        return safe_files.read_file_only_owner_writes(path, MOST_BYTES)[0].decode()
    except FileNotFoundError as error:
        raise ConfigError((f"[bootstrap] {key}: {path}: {error.strerror}",)) from error
    except UnicodeDecodeError as error:
        raise ConfigError((f"[bootstrap] {key}: {path}: no UTF-8",)) from error


def _account_line_for_bootstrap(name: str) -> str:
    try:
        account = pwd.getpwnam(name)
        group = grp.getgrgid(account.pw_gid).gr_name
    except KeyError as error:
        raise ConfigError((f"[bootstrap] people: no account {name}, or the account has no group",)) from error
    home, shell = account.pw_dir, account.pw_shell or "/bin/sh"
    return f"{name} {account.pw_uid} {group} {account.pw_gid} {home} {shell}\n"
