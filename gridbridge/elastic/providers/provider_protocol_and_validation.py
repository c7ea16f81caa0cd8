"""Protocols of providers, and checks of reported values, which root writes into system files."""

import base64
import binascii
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from gridbridge.errors import ParseError
from gridbridge.model.elastic.elastic_nodes import OWNER_TAG, ProviderMachine, ProviderMachineState


class MachineLister(Protocol):
    """Lists a provider's machines.

    Calls raise ProviderOutOfMachines, ProviderOutcomeUnknown (the call may have worked, or may work later), or
    ProviderPermanentFailure. Only after ProviderRequestRepeatable, a subclass of ProviderOutcomeUnknown, does a
    repeated call surely make no second machine.
    """

    def list_machines(self) -> tuple[ProviderMachine, ...]:
        """Return the machines of all owners; raises ProviderPermanentFailure if any entry is invalid."""


class MachineProvider(MachineLister, Protocol):
    def create_machine(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Create a machine, which may still boot; if the answer is lost, the call is repeated with equal tags."""

    def destroy_machine(self, machine: ProviderMachine) -> None:
        """Destroy a machine with its disk; nothing happens if the machine is missing."""


class HostPowerControl(MachineLister, Protocol):
    def power_on_host(self, machine: ProviderMachine) -> None:
        """Switch a host on; nothing happens to a host that is on."""

    def power_off_host(self, machine: ProviderMachine) -> None:
        """Shut a host down, and keep its disk; nothing happens to a host that is off."""


SHOWN = 60  # limit of an invalid value's characters in a message
TEXTS = ("id", "name", "address", "state", "host_key")
ID = re.compile("[!-~]{1,255}")
LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # RFC 1123, 2.1; the qmaster changes host names to lower case
HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(\.{LABEL})*")
MOST_TAGS = 100
TAG = 1024  # limit of characters in a tag's name or value
KEY_TYPES = "ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa"  # RFC 4253, 5656 and 8709
HOST_KEY = re.compile(f"({KEY_TYPES}) ([A-Za-z0-9+/]{{40,1500}}={{0,2}})( [!-~]{{1,255}})?")
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
BEST_FIRST = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
LOG = re.compile(r"^\[ *[0-9.]+\] cloud-init\[[0-9]+\]: |^ci-info: ")


def parse_provider_machine_list(raw: bytes, cluster: str = "") -> tuple[ProviderMachine, ...]:
    """Parse a provider's JSON list of machines; raises ParseError for an invalid machine."""
    content = _parse_json(raw)
    if not isinstance(content, list):
        raise ParseError("not a list of nodes")
    return require_valid_provider_machines((_parse_machine(row) for row in content), cluster)


def _parse_json(raw: bytes) -> object:
    try:
        return json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise ParseError(f"no JSON: {error}") from error


def parse_provider_machine(raw: bytes) -> ProviderMachine:
    """Parse JSON of one machine with the owner tag; raises ParseError with the invalid value."""
    return require_valid_provider_machine(_parse_machine(_parse_json(raw)))


def _parse_machine(content: object) -> ProviderMachine:
    if not isinstance(content, Mapping):
        raise ParseError(f"no node: {_shorten_value(content)}")
    for key in TEXTS:
        if not isinstance(content.get(key), str):
            raise ParseError(f"{key} = {_shorten_value(content.get(key))}: missing, or not text")
    state = content["state"]
    return ProviderMachine(
        id=content["id"],
        name=content["name"],
        state=ProviderMachineState(state) if state in list(ProviderMachineState) else ProviderMachineState.UNKNOWN,
        address=content["address"],
        tags=_parse_tags(content.get("tags")),
        host_key=content["host_key"],
        created=_parse_creation_time(content.get("created")),
    )


def require_valid_provider_machine(machine: ProviderMachine, cluster: str = "") -> ProviderMachine:
    """Return a valid machine, otherwise raise ParseError; if the owner tag is missing, any printable name is valid."""
    is_owned = machine.has_owner_tag_of_cluster(cluster) if cluster else OWNER_TAG in machine.tags
    if not ID.fullmatch(machine.id):
        raise ParseError(f"id = {_shorten_value(machine.id)}: blanks or unprintable characters")
    if not (HOST_NAME.fullmatch(machine.name) if is_owned else machine.name.isprintable()):
        raise ParseError(f"name = {_shorten_value(machine.name)}: not a host name")
    for words in machine.tags.items():
        if not all(word.isprintable() and len(word) <= TAG for word in words):
            raise ParseError(f"tags = {_shorten_value(words)}: too long, or not printable")
    if machine.address and not _is_host_ip_address(machine.address):
        raise ParseError(f"address = {_shorten_value(machine.address)}: not an IP address of a host")
    if machine.created is not None:
        _require_creation_time(machine.created)
    if machine.host_key and not is_ssh_host_key(machine.host_key):
        raise ParseError(f"host_key = {_shorten_value(machine.host_key)}: not a public ssh host key")
    return machine


def _require_creation_time(created: datetime) -> None:
    if created.tzinfo is None:
        raise ParseError(f"created = {_shorten_value(created)}: a time without a time zone")
    try:
        created.astimezone(UTC)
    except OverflowError as error:
        raise ParseError(f"created = {_shorten_value(created)}: an impossible time") from error


def require_valid_provider_machines(
    machines: Iterable[ProviderMachine], cluster: str = ""
) -> tuple[ProviderMachine, ...]:
    """Return valid machines, otherwise raise ParseError; other clusters' machines may have unprintable text."""
    printable = (
        machine
        if not cluster or machine.has_owner_tag_of_cluster(cluster)
        else _machine_without_unprintable_characters(machine)
        for machine in machines
    )
    valid = tuple(require_valid_provider_machine(machine, cluster) for machine in printable)
    twice = [id_ for id_, count in Counter(machine.id for machine in valid).items() if count > 1]
    if twice:
        raise ParseError(f"id = {_shorten_value(twice[0])}: two nodes have this id")
    return valid


def _machine_without_unprintable_characters(machine: ProviderMachine) -> ProviderMachine:
    """Return the machine of another owner, with only printable characters in name and tags."""
    tags = {_replace_unprintable(key): _replace_unprintable(value) for key, value in machine.tags.items()}
    key = machine.host_key if is_ssh_host_key(machine.host_key) else ""
    return replace(machine, name=_replace_unprintable(machine.name), tags=tags, host_key=key)


def _replace_unprintable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text[:TAG])


def is_ssh_host_key(text: str) -> bool:
    """Return whether a text is an ssh public key; the key data must repeat the key's type."""
    match = HOST_KEY.fullmatch(text)
    if not match:
        return False
    try:
        blob = base64.b64decode(match[2], validate=True)
    except binascii.Error:
        return False
    kind = match[1].encode()
    return blob.startswith(len(kind).to_bytes(4, "big") + kind)


def _is_host_ip_address(text: str) -> bool:
    """Return whether a text is an IP address for a host; False for scoped and multicast addresses."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text and not (address.is_multicast or address.is_unspecified)


def _parse_tags(content: object) -> dict[str, str]:
    if not isinstance(content, dict) or len(content) > MOST_TAGS:
        raise ParseError(f"tags = {_shorten_value(content)}: missing, or not a table of texts")
    for value in content.values():
        if not isinstance(value, str):
            raise ParseError(f"tags = {_shorten_value(content)}: not a table of texts")
    return content


def _parse_creation_time(content: object) -> datetime | None:
    if content is None:
        return None
    try:
        return datetime.fromisoformat(str(content))
    except ValueError as error:
        raise ParseError(f"created = {_shorten_value(content)}: not a time") from error


def _shorten_value(value: object) -> str:
    shown = json.dumps(value, default=str)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def find_console_host_key(printed: str) -> str:
    """Return the best host key on a console, never RSA (too long for EC2 tags); '' if the keys are cut off."""
    block = printed.rpartition(BEGIN)[2] if BEGIN in printed else ""
    if END not in block:
        return ""
    lines = STEERING.sub("", block.partition(END)[0]).splitlines()
    words = (LOG.sub("", line).split() for line in lines)
    keys = {word[0]: f"{word[0]} {word[1]}" for word in words if len(word) > 1}
    candidates = (keys[kind] for kind in BEST_FIRST if kind in keys)
    return next((key for key in candidates if is_ssh_host_key(key)), "")
