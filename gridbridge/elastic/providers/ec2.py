"""Creates and destroys machines at EC2 or a compatible cloud (Amazon EC2 API Reference).

A request carries tags and a client token, so a repeat after a lost answer makes no second machine.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from gridbridge import errors
from gridbridge.elastic.providers import provider_protocol_and_validation, site_program_provider
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import HOST_KEY_TAG, OWNER_TAG, ProviderMachine, ProviderMachineState
from gridbridge.shell.clock import Clock
from gridbridge.shell.optional_libraries import missing_library_message

if TYPE_CHECKING:
    from botocore.loaders import Loader

PAGE = 500  # limit of machines in one answer
CONSOLES = 20  # limit of consoles that are read for one machine list
TELLS = timedelta(hours=2)  # for this long after the start, the console may still show the host key
GENERATIONS = 50  # a machine may be created this many times while EC2 remembers its client tokens
STATES = {
    "pending": ProviderMachineState.PENDING,
    "running": ProviderMachineState.RUNNING,
    "stopping": ProviderMachineState.STOPPED,
    "stopped": ProviderMachineState.STOPPED,
    "shutting-down": ProviderMachineState.GONE,
    "terminated": ProviderMachineState.GONE,
}
SPOT = {
    "MarketType": "spot",
    "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"},
}
NO_CAPACITY = {  # error codes of EC2's API reference
    "InstanceLimitExceeded",
    "InsufficientAddressCapacity",
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientVolumeCapacity",
    "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow",
    "VcpuLimitExceeded",
    "VolumeLimitExceeded",
}
THROTTLED = {"EC2ThrottledException", "RequestLimitExceeded", "Throttling", "ThrottlingException"}
LATER = {
    *THROTTLED,
    "IncorrectInstanceState",
    "InternalError",
    "InternalFailure",
    "InvalidInstanceID.NotFound",  # EC2 may not show a new machine everywhere yet
    "ServiceUnavailable",
    "Unavailable",
}
PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # pauses before retries; EC2 allows 5 requests, then 2 a second
GONE = "InvalidInstanceID.NotFound"
ENDED = "IdempotentInstanceTerminated"  # the client token's machine was terminated
NO_LATEST = "UnsupportedOperation"  # older machine types have no latest console output


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2MachineProvider:
    """An EC2 region's machines with gridbridge's owner tag."""

    client: Any
    section: MachineProviderSection
    cluster: str
    is_spot: bool = False
    host_key: str = ""
    pause: Callable[[float], None] = field(default_factory=lambda: Clock().sleep)
    now: Callable[[], datetime] = field(default_factory=lambda: Clock().now)

    def create_machine(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Create a machine; a repeated call returns the first machine as long as it exists."""
        request = self._ec2_machine_request(name, tags)
        for generation in range(GENERATIONS):
            with translate_ec2_errors("create"):
                # equal requests of one generation have equal tokens
                text = json.dumps([generation, request], sort_keys=True)
                machine = self._request_ec2_machine(request, hashlib.sha256(text.encode()).hexdigest())
                if machine and machine.state is not ProviderMachineState.GONE:
                    return machine
        raise errors.ProviderOutcomeUnknown(f"ec2 create: {name} was already created {GENERATIONS} times today")

    def destroy_machine(self, machine: ProviderMachine) -> None:
        """Terminate a machine; the image decides which disks are deleted."""
        with translate_ec2_errors("destroy", harmless=GONE):
            self.client.terminate_instances(InstanceIds=[machine.id])

    def list_machines(self) -> tuple[ProviderMachine, ...]:
        """Return all machines with the owner tag, including recently terminated machines."""
        ours = [{"Name": "tag-key", "Values": [OWNER_TAG]}]
        with translate_ec2_errors("list"):
            pages = self.client.get_paginator("describe_instances").paginate(
                Filters=ours, PaginationConfig={"PageSize": PAGE}
            )
            machines = [
                machine_from_ec2_instance(instance)
                for page in pages
                for group in page["Reservations"]
                for instance in group["Instances"]
            ]
            return provider_protocol_and_validation.require_valid_provider_machines(
                self._add_host_keys_to_machines(machines), self.cluster
            )

    def _ec2_machine_request(self, name: str, tags: Mapping[str, str]) -> dict[str, object]:
        own_key = {HOST_KEY_TAG: self.host_key} if self.host_key else {}
        pairs = [{"Key": key, "Value": value} for key, value in sorted({**tags, **own_key, "Name": name}.items())]
        tagged = [{"ResourceType": kind, "Tags": pairs} for kind in ("instance", "volume")]
        optional = {
            "KeyName": self.section.key_name,
            "SubnetId": self.section.subnet,
            "SecurityGroupIds": self.section.security_groups.split(),
            "UserData": _read_user_data(self.section.user_data),
            "InstanceMarketOptions": SPOT if self.is_spot else {},
        }
        return {
            "ImageId": self.section.image,
            "InstanceType": self.section.size,
            "MinCount": 1,
            "MaxCount": 1,
            "InstanceInitiatedShutdownBehavior": "terminate",  # a stopped machine would cost money
            "TagSpecifications": tagged,
            **{key: value for key, value in optional.items() if value},
        }

    def _request_ec2_machine(self, request: Mapping[str, object], token: str) -> ProviderMachine | None:
        """Return the machine of a client token, created if necessary; None if this machine was terminated."""
        from botocore.exceptions import ClientError

        try:
            (instance,) = self._create_machine_despite_throttling(request, token)["Instances"]
        except ClientError as error:
            if _ec2_error_code(error) == ENDED:
                return None
            raise
        return provider_protocol_and_validation.require_valid_provider_machine(machine_from_ec2_instance(instance))

    def _create_machine_despite_throttling(self, request: Mapping[str, object], token: str) -> Any:
        from botocore.exceptions import ClientError

        for pause_s in PAUSES_S:
            try:
                return self.client.run_instances(**request, ClientToken=token)
            except ClientError as error:
                if _ec2_error_code(error) not in THROTTLED:
                    raise
            self.pause(pause_s)
        return self.client.run_instances(**request, ClientToken=token)

    def _add_host_keys_to_machines(self, machines: list[ProviderMachine]) -> Iterator[ProviderMachine]:
        """Yield the machines, with host keys from tags or consoles."""
        keyless = [machine for machine in machines if self._may_console_show_host_key(machine)]
        newest = sorted(keyless, key=lambda machine: str(machine.created), reverse=True)[:CONSOLES]
        keys = {machine.id: self._copy_host_key_from_console_to_tag(machine.id) for machine in newest}
        yield from (replace(machine, host_key=keys.get(machine.id, machine.host_key)) for machine in machines)

    def _may_console_show_host_key(self, machine: ProviderMachine) -> bool:
        """Return whether a host key is unknown and may still appear on the machine's console."""
        is_up = machine.state is ProviderMachineState.RUNNING
        is_young = machine.created is None or self.now() - machine.created < TELLS
        return is_up and is_young and not machine.host_key and machine.has_owner_tag_of_cluster(self.cluster)

    def _copy_host_key_from_console_to_tag(self, id_: str) -> str:
        """Copy a host key from a machine's console into a tag; return the key, or '' if it is not readable yet."""
        try:
            with translate_ec2_errors("list"):
                key = provider_protocol_and_validation.find_console_host_key(self._read_machine_console(id_))
                if key:
                    tag = {"Key": HOST_KEY_TAG, "Value": key}
                    self.client.create_tags(Resources=[id_], Tags=[tag])
        except errors.ProviderOutcomeUnknown:
            return ""
        return key

    def _read_machine_console(self, id_: str) -> str:
        from botocore.exceptions import ClientError

        try:
            answer = self.client.get_console_output(InstanceId=id_, Latest=True)
        except ClientError as error:
            if _ec2_error_code(error) != NO_LATEST:
                raise
            answer = self.client.get_console_output(InstanceId=id_)
        return str(answer.get("Output", ""))


@cache
def _botocore_descriptions(path: str | None) -> "Loader":
    """Return botocore's service descriptions, 7 MB of JSON that all providers share."""
    from botocore.loaders import create_loader

    return create_loader(path)


def make_ec2_provider(section: MachineProviderSection, pool: NodePoolSection, cluster: str) -> Ec2MachineProvider:
    """Return the EC2 provider of a pool; each call has a timeout, and boto3 does not retry calls."""
    try:
        import boto3
        import botocore.session
        from botocore.config import Config
    except ImportError as error:
        raise errors.ProviderPermanentFailure(missing_library_message("boto3")) from error
    secrets = site_program_provider.read_private_credentials(section.credentials) if section.credentials else {}
    config = Config(
        connect_timeout=section.timeout_s, read_timeout=section.timeout_s, retries={"total_max_attempts": 1}
    )
    try:
        core = botocore.session.get_session()
        core.register_component("data_loader", _botocore_descriptions(core.get_config_variable("data_path")))
        session = boto3.session.Session(region_name=section.region, botocore_session=core, **secrets)
        client = session.client("ec2", endpoint_url=section.endpoint or None, config=config)
    except TypeError as error:
        names = "aws_access_key_id, aws_secret_access_key and aws_session_token"
        raise errors.ProviderPermanentFailure(f"{section.credentials}: unknown name; expected {names}") from error
    except ValueError as error:
        raise errors.ProviderPermanentFailure(f"ec2: {error}") from error
    return Ec2MachineProvider(
        client=client, section=section, cluster=cluster, is_spot=pool.spot, host_key=pool.host_key
    )


def machine_from_ec2_instance(instance: Mapping[str, Any]) -> ProviderMachine:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    key = tags.get(HOST_KEY_TAG, "")
    return ProviderMachine(
        id=instance["InstanceId"],
        name=tags.pop("Name", ""),
        state=STATES.get(instance["State"]["Name"], ProviderMachineState.UNKNOWN),
        address=instance.get("PrivateIpAddress") or instance.get("PublicIpAddress") or "",
        tags=tags,
        host_key=key,
        created=instance.get("LaunchTime"),
    )


@contextmanager
def translate_ec2_errors(verb: str, harmless: str = "") -> Iterator[None]:
    """Turn errors of boto and malformed answers into provider errors; ignore the error code `harmless`."""
    from botocore import exceptions as boto

    try:
        yield
    except boto.ClientError as error:
        if _ec2_error_code(error) != harmless:
            raise error_class_of_ec2_code(_ec2_error_code(error))(
                f"ec2 {verb}: {errors.error_on_one_line(error)}"
            ) from error
    except (boto.ConnectionError, boto.HTTPClientError) as error:
        raise errors.ProviderRequestRepeatable(f"ec2 {verb}: {errors.error_on_one_line(error)}") from error
    except (boto.BotoCoreError, errors.ParseError) as error:
        raise errors.ProviderPermanentFailure(f"ec2 {verb}: {errors.error_on_one_line(error)}") from error
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        odd = f"unreadable answer ({type(error).__name__}: {errors.error_on_one_line(error)})"
        raise errors.ProviderPermanentFailure(f"ec2 {verb}: {odd}") from error


def error_class_of_ec2_code(code: str) -> Callable[[str], Exception]:
    if code in NO_CAPACITY:
        return errors.ProviderOutOfMachines
    return errors.ProviderRequestRepeatable if code in LATER else errors.ProviderPermanentFailure


def _ec2_error_code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _read_user_data(path: str) -> str:
    """Return the user data, which machines run as root; raise ProviderPermanentFailure for an unsafe file."""
    if not path:
        return ""
    try:
        with open(site_program_provider.require_trusted_provider_file(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ProviderPermanentFailure(f"{path}: {errors.describe_error(error)}") from error
