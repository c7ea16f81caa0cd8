"""Runs a program of the site as a provider, with exit statuses of sysexits.h, and reads secret files."""

import configparser
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge import errors
from gridbridge.elastic.providers import provider_protocol_and_validation
from gridbridge.model.elastic.elastic_nodes import POOL_TAG, ProviderMachine
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from gridbridge.shell import local_host_facts, program_runs, safe_files

LATER, NO_CAPACITY = 75, 69  # exit statuses EX_TEMPFAIL and EX_UNAVAILABLE
MOST_BYTES = 16 << 20  # size limit of output; enough for 20,000 nodes
WORDS = 200  # limit of characters shown of a program's message


def provider_program_environment() -> dict[str, str]:
    """Return the environment for a provider's program: the environment of this process, with LC_ALL=C."""
    return {**os.environ, "LC_ALL": "C"}


def require_trusted_provider_file(path: str) -> str:
    """Return a path if only root and this account can change it; else raise ProviderPermanentFailure.

    A provider's program has root's power over its machines. If this account only previews a plan, the balancer's
    account may also change the file. A missing file passes.
    """
    me, balancer = os.geteuid(), local_host_facts.uid_of_account(BALANCE_ACCOUNT)
    is_other = bool(balancer) and me not in (0, balancer)
    try:
        safe_files.require_trusted_path(path, owner=me)
    except errors.FileWritableByOthers as error:
        if not is_other:
            raise errors.ProviderPermanentFailure(str(error)) from error
        _require_file_of_root_or_balancer(path, balancer)
    except OSError:
        return path
    return path


def _require_file_of_root_or_balancer(path: str, balancer: int) -> None:
    try:
        safe_files.require_trusted_path(path, owner=balancer)
    except errors.FileWritableByOthers as error:
        raise errors.ProviderPermanentFailure(f"others could have written {path}: {error.wrong}") from error


def run_provider_program(
    argv: tuple[str, ...], timeout_s: float, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> bytes:
    """Run a provider's program, by default in this process's environment; raise the error of its exit status."""
    environment = provider_program_environment() if env is None else dict(env)
    try:
        return program_runs.run_program(argv, environment, timeout_s, stdin, MOST_BYTES).require_success().stdout
    except errors.CommandFailed as failed:
        message = f"{' '.join(argv)}: {format_program_output_as_line(failed.failure_in_words)}"
        if failed.status == NO_CAPACITY:
            raise errors.ProviderOutOfMachines(message) from failed
        if failed.status == LATER:
            raise errors.ProviderRequestRepeatable(message) from failed
        if failed.transient:
            raise errors.ProviderOutcomeUnknown(message) from failed
        raise errors.ProviderPermanentFailure(message) from failed


def format_program_output_as_line(words: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in words)[:WORDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteProgramProvider:
    program: str
    timeout_s: float
    env: Mapping[str, str] = field(default_factory=provider_program_environment)
    cluster: str = ""  # the cluster whose machines must have valid names and tags

    def create_machine(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Create a machine; raises ProviderPermanentFailure if the program reports a wrong name or tag."""
        request = {"name": name, "pool": tags.get(POOL_TAG, ""), "tags": dict(tags)}
        printed = self._call_provider_program("create", request)
        try:
            machine = provider_protocol_and_validation.parse_provider_machine(printed)
        except errors.ParseError as error:
            raise errors.ProviderPermanentFailure(f"{self.program} create: {error}") from error
        if machine.name != name or not tags.items() <= machine.tags.items():
            problem = f"the program printed machine {machine.name} ({machine.id}), which was not requested"
            mend = f"`{self.program} destroy` ends an unused node"
            raise errors.ProviderPermanentFailure(f"{self.program} create: {problem}; {mend}")
        return machine

    def destroy_machine(self, machine: ProviderMachine) -> None:
        self._call_provider_program("destroy", {"id": machine.id})

    def list_machines(self) -> tuple[ProviderMachine, ...]:
        """Return all machines; if one entry is invalid, the whole list is refused."""
        printed = self._call_provider_program("list", {})
        try:
            return provider_protocol_and_validation.parse_provider_machine_list(printed, self.cluster)
        except errors.ParseError as error:
            raise errors.ProviderPermanentFailure(f"{self.program} list: {error}") from error

    def _call_provider_program(self, verb: str, request: Mapping[str, object]) -> bytes:
        stdin = json.dumps(request).encode() + b"\n"
        return run_provider_program((self.program, verb), self.timeout_s, stdin, self.env)


MOST_SECRET_BYTES = 65536
OTHERS = 0o077  # mode bits of group and others


def read_private_credentials(path: str) -> dict[str, str]:
    """Read section [default] of a private file in AWS's format; error messages show no secret."""
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as configparser documents
    try:
        parser.read_string(read_secret_file(path))
        return dict(parser["default"])
    except (configparser.Error, KeyError) as error:
        right = "lines NAME = VALUE below a line [default]"
        raise errors.ProviderPermanentFailure(f"{path}: wrong format; expected {right}") from error


def read_secret_file(path: str) -> str:
    """Return a file's text; raise ProviderPermanentFailure if other accounts can read the file."""
    try:
        raw, facts = safe_files.read_file_only_owner_writes(path, MOST_SECRET_BYTES, os.geteuid())
        if facts.st_mode & OTHERS:
            raise errors.ProviderPermanentFailure(f"{path}: readable by others; run chmod 600 {path}")
        return raw.decode().rstrip("\n")
    except FileNotFoundError as error:
        raise errors.ProviderPermanentFailure(f"{path}: {error.strerror}") from error
    except errors.StateError as error:
        raise errors.ProviderPermanentFailure(str(error)) from error
    except UnicodeDecodeError as error:
        raise errors.ProviderPermanentFailure(f"{path}: no UTF-8") from error
