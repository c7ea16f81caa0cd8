"""Carries out the power requests that OAR's hooks write into a folder."""

import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge.batch.optional_adapter_protocols import ExecutionHostMembership
from gridbridge.decisions.elastic.site_host_power_lifecycle import (
    latest_oar_power_request_by_node,
    unfinished_oar_power_requests,
)
from gridbridge.elastic.host_membership_and_tags import home_cluster_host_membership
from gridbridge.elastic.providers import provider_registry
from gridbridge.elastic.providers.provider_protocol_and_validation import HostPowerControl
from gridbridge.errors import GridbridgeError, ProviderOutcomeUnknown, StateError
from gridbridge.model.elastic.elastic_nodes import ProviderMachine, ProviderMachineState
from gridbridge.model.elastic.standby_and_wake_plan import OarPowerRequest, OarRequestedPowerState
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from gridbridge.model.site_configuration import Policy
from gridbridge.program import service_cycle
from gridbridge.shell import safe_files

REQUEST_FILE_NAME = re.compile(r"(wake|sleep)\.[A-Za-z0-9]{1,64}").fullmatch
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}").fullmatch
MAX_BYTES = 1 << 20
LOCK = ".lock"
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PROGRAM_NAME, LOCKED = "gridbridge balance power", 3
AT_ONCE = 16  # limit of nodes switched in parallel


def read_oar_power_requests(folder: str) -> tuple[OarPowerRequest, ...]:
    """Read all power requests in a folder; raises StateError for an unreadable folder or file."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError as error:
        mend = f"`install -d -m 2775 -o oar -g {BALANCE_ACCOUNT} {folder}` makes it"
        raise StateError(f"{folder}: {error.strerror}; {mend}") from error
    except OSError as error:
        raise StateError(f"{folder}: {error.strerror}") from error
    requests = []
    for named in filter(None, map(REQUEST_FILE_NAME, names)):
        with suppress(FileNotFoundError):
            content, facts = safe_files.read_file_only_owner_writes(f"{folder}/{named[0]}", MAX_BYTES)
            hosts = tuple(filter(HOST, content.decode("ascii", "replace").split()))
            wish = OarRequestedPowerState(named[1])
            requests.append(OarPowerRequest(file=named[0], at_s=facts.st_mtime, wish=wish, hosts=hosts))
    return tuple(requests)


def rewrite_power_request_file(folder: str, before: OarPowerRequest, after: OarPowerRequest) -> None:
    """Rewrite a request file with the remaining nodes and keep the file's time; delete a file without such nodes."""
    path = f"{folder}/{before.file}"
    try:
        if not after.hosts:
            safe_files.remove_file(path)
        elif after.hosts != before.hosts:
            safe_files.replace_file_atomically(path, "".join(f"{host}\n" for host in after.hosts).encode())
            os.utime(path, (before.at_s, before.at_s))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error


def create_power_request_lock_file(folder: str) -> str:
    """Create the lock file if it is missing, writable for the folder's group; return the file's path."""
    path = f"{folder}/{LOCK}"
    with suppress(OSError):
        end = os.open(path, NEW, 0o600)
        os.fchmod(end, 0o660)
        os.close(end)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class OarPowerRequestOutcome:
    """The outcome of a node's power request; an empty `why` means success."""

    host: str
    wish: OarRequestedPowerState
    why: str = ""
    is_later: bool = False  # whether the next call retries the request


def apply_oar_power_requests(
    policy: Policy, folder: str, now: datetime, *, is_acting: bool
) -> tuple[OarPowerRequestOutcome, ...]:
    """Carry out the requests in a folder; if `is_acting` is false, only return the requests.

    The program exits with status 3 while another process carries out requests.
    """
    notes = read_oar_power_requests(folder)
    if not is_acting:
        requests = sorted(latest_oar_power_request_by_node(notes, now.timestamp()).items())
        return tuple(_outcome_before_switching(policy, *request) for request in requests)
    with service_cycle.hold_program_lock(create_power_request_lock_file(folder), PROGRAM_NAME, LOCKED):
        return _carry_out_power_requests(policy, folder, now.timestamp())


def _carry_out_power_requests(policy: Policy, folder: str, now_s: float) -> tuple[OarPowerRequestOutcome, ...]:
    """Switch the requested nodes in parallel; keep only the request files that need a retry."""
    notes = read_oar_power_requests(folder)
    requests = sorted(latest_oar_power_request_by_node(notes, now_s).items())
    own = {policy.powered[host].provider for host, _ in requests if host in policy.powered}
    supplies, site = (
        provider_registry.make_power_controls_by_provider(policy, own),
        home_cluster_host_membership(policy),
    )
    with ThreadPoolExecutor(AT_ONCE, "power") as threads:
        outcomes = tuple(
            threads.map(lambda request: _switch_node_by_request(policy, site, supplies, *request), requests)
        )
    unsettled = {outcome.host: outcome.wish for outcome in outcomes if outcome.is_later}
    for before, after in zip(notes, unfinished_oar_power_requests(notes, unsettled, now_s), strict=True):
        rewrite_power_request_file(folder, before, after)
    return outcomes


def _outcome_before_switching(policy: Policy, host: str, requested: OarRequestedPowerState) -> OarPowerRequestOutcome:
    """Return a request's outcome before switching: a failure if no provider can switch the host."""
    lack = f"no provider can switch the host on or off; expected a section [power.{host}]"
    return OarPowerRequestOutcome(host=host, wish=requested, why="" if host in policy.powered else lack)


def _switch_node_by_request(
    policy: Policy,
    site: ExecutionHostMembership,
    supplies: Mapping[str, HostPowerControl],
    host: str,
    requested: OarRequestedPowerState,
) -> OarPowerRequestOutcome:
    outcome = _outcome_before_switching(policy, host, requested)
    if outcome.why:
        return outcome
    machine = ProviderMachine(id=host, name=host, state=ProviderMachineState.UNKNOWN)
    supply = supplies[policy.powered[host].provider]
    try:
        if requested is OarRequestedPowerState.WAKE:
            supply.power_on_host(machine)
            return outcome
        idleness = site.check_host_before_removal(host)
        if not idleness.is_idle:
            return replace(outcome, why="OAR has a job on the node")
        if not idleness.is_closed:  # a job may start on a node until OAR's hook has marked the node as absent
            return replace(outcome, why="OAR has not marked the node as absent yet", is_later=True)
        supply.power_off_host(machine)
    except ProviderOutcomeUnknown as error:
        return replace(outcome, why=str(error), is_later=True)
    except GridbridgeError as error:
        return replace(outcome, why=str(error))
    return outcome
