"""Machines of EC2, or of a cloud that speaks as it does (Amazon EC2 API Reference).

A machine is made together with its tags, by a request whose token is the same when it is repeated:
so an answer that is lost neither leaves a machine that nobody owns nor makes a second one.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from gridbridge.elastic.providers import (
    answer_validation,
    console_host_key,
    credentials,
    provider_program,
)
from gridbridge.errors import (
    AskAgain,
    NoCapacity,
    NotGranted,
    ParseError,
    ProviderFailed,
    plain_words,
)
from gridbridge.model.elastic.balance_sections import PoolSection, ProviderSection
from gridbridge.model.elastic.elastic_nodes import (
    HOST_KEY_TAG,
    OWNER_TAG,
    ProviderMachine,
    ProviderMachineState,
)
from gridbridge.shell.clock import Clock

if TYPE_CHECKING:
    from botocore.loaders import Loader

MISSING = "boto3 is not installed; pip install 'gridbridge[ec2]' in gridbridge's environment"
PAGE = 500  # machines of one answer
CONSOLES = 20  # that are read in one listing
TELLS = timedelta(hours=2)  # so long after its start a machine's console may come to tell its key
GENERATIONS = 50  # machines of one name and with the same tags that ended within a token's life
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
    "SpotOptions": {
        "SpotInstanceType": "one-time",
        "InstanceInterruptionBehavior": "terminate",
    },
}
NO_CAPACITY = {  # error codes of the API reference, as are the others
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
    "InvalidInstanceID.NotFound",  # one that was made just now may not be known everywhere
    "ServiceUnavailable",
    "Unavailable",
}
PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # of who is throttled: EC2 lets 5 be made at once, then 2 a second
GONE = "InvalidInstanceID.NotFound"
ENDED = "IdempotentInstanceTerminated"  # the token's machine is gone already
NO_LATEST = "UnsupportedOperation"  # only newer sizes show their console at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Provider:
    """Machines of a region; those without a gridbridge's tag are not even listed."""

    client: Any  # boto3's, which has no types of its own
    section: ProviderSection
    cluster: str
    is_spot: bool = False
    host_key: str = ""
    pause: Callable[[float], None] = field(default_factory=lambda: Clock().sleep)
    now: Callable[[], datetime] = field(default_factory=lambda: Clock().now)

    def create(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Have a machine made; the same one when the same call is repeated while it lives."""
        request = self._request(name, tags)
        for generation in range(GENERATIONS):
            with translated_errors("create"):
                machine = self._run(request, _token(request, generation))
                if machine and machine.state is not ProviderMachineState.GONE:
                    return machine
        raise NotGranted(f"ec2 create: {name} was made {GENERATIONS} times today")

    def destroy(self, machine: ProviderMachine) -> None:
        """Have it removed with the disks that its image says end with it."""
        with translated_errors("destroy", harmless=GONE):
            self.client.terminate_instances(InstanceIds=[machine.id])

    def machines(self) -> tuple[ProviderMachine, ...]:
        """Return the machines that belong to a gridbridge, those that ended just now too."""
        ours = [{"Name": "tag-key", "Values": [OWNER_TAG]}]
        with translated_errors("list"):
            pages = self.client.get_paginator("describe_instances").paginate(
                Filters=ours, PaginationConfig={"PageSize": PAGE}
            )
            machines = [
                machine_of(instance)
                for page in pages
                for group in page["Reservations"]
                for instance in group["Instances"]
            ]
            return answer_validation.checked(self._with_keys(machines), self.cluster)

    def _request(self, name: str, tags: Mapping[str, str]) -> dict[str, object]:
        """Return what a machine is made of, as RunInstances takes it."""
        own_key = {HOST_KEY_TAG: self.host_key} if self.host_key else {}
        pairs = [
            {"Key": key, "Value": value}
            for key, value in sorted({**tags, **own_key, "Name": name}.items())
        ]
        tagged = [{"ResourceType": kind, "Tags": pairs} for kind in ("instance", "volume")]
        optional = {
            "KeyName": self.section.key_name,
            "SubnetId": self.section.subnet,
            "SecurityGroupIds": self.section.security_groups.split(),
            "UserData": _content(self.section.user_data),
            "InstanceMarketOptions": SPOT if self.is_spot else {},
        }
        return {
            "ImageId": self.section.image,
            "InstanceType": self.section.size,
            "MinCount": 1,
            "MaxCount": 1,
            "InstanceInitiatedShutdownBehavior": "terminate",  # a stopped one is of no use
            "TagSpecifications": tagged,
            **{key: value for key, value in optional.items() if value},
        }

    def _run(self, request: Mapping[str, object], token: str) -> ProviderMachine | None:
        """Return the token's machine, none when that has ended."""
        from botocore.exceptions import ClientError

        try:
            (instance,) = self._patiently(request, token)["Instances"]
        except ClientError as error:
            if _code(error) == ENDED:
                return None
            raise
        return answer_validation.right(machine_of(instance))

    def _patiently(self, request: Mapping[str, object], token: str) -> Any:
        """Ask for a machine, and again for as long as too many are asked for at once."""
        from botocore.exceptions import ClientError

        for pause_s in PAUSES_S:
            try:
                return self.client.run_instances(**request, ClientToken=token)
            except ClientError as error:
                if _code(error) not in THROTTLED:
                    raise
            self.pause(pause_s)
        return self.client.run_instances(**request, ClientToken=token)

    def _with_keys(self, machines: list[ProviderMachine]) -> Iterator[ProviderMachine]:
        """Yield machines with their host keys, as far as a tag or the console tells them."""
        keyless = [machine for machine in machines if self._is_keyless(machine)]
        newest = sorted(keyless, key=lambda machine: str(machine.created), reverse=True)[:CONSOLES]
        keys = {machine.id: self._learn(machine.id) for machine in newest}
        yield from (
            replace(machine, host_key=keys.get(machine.id, machine.host_key))
            for machine in machines
        )

    def _is_keyless(self, machine: ProviderMachine) -> bool:
        """Say whether a machine's key is not known, and its console may tell it still."""
        is_up = machine.state is ProviderMachineState.RUNNING
        is_young = machine.created is None or self.now() - machine.created < TELLS
        return is_up and is_young and not machine.host_key and machine.belongs_to(self.cluster)

    def _learn(self, id_: str) -> str:
        """Read a host key from a machine's console, and keep it in a tag; empty: not there yet.

        What may work later is left for later, and does not keep the list from being read.
        """
        try:
            with translated_errors("list"):
                key = console_host_key.host_key(self._console(id_))
                if key:
                    tag = {"Key": HOST_KEY_TAG, "Value": key}
                    self.client.create_tags(Resources=[id_], Tags=[tag])
        except NotGranted:
            return ""
        return key

    def _console(self, id_: str) -> str:
        from botocore.exceptions import ClientError

        try:
            answer = self.client.get_console_output(InstanceId=id_, Latest=True)
        except ClientError as error:
            if _code(error) != NO_LATEST:
                raise
            answer = self.client.get_console_output(InstanceId=id_)
        return str(answer.get("Output", ""))


@cache
def _descriptions(path: str | None) -> "Loader":
    """Return botocore's descriptions of services: 7 MB of JSON, read once for all providers."""
    from botocore.loaders import create_loader

    return create_loader(path)


def made(section: ProviderSection, pool: PoolSection, cluster: str) -> Ec2Provider:
    """Return the provider of a pool; each of its calls has the section's limit, and is one try."""
    try:
        import boto3
        import botocore.session
        from botocore.config import Config
    except ImportError as error:
        raise ProviderFailed(MISSING) from error
    secrets = credentials.table(section.credentials) if section.credentials else {}
    config = Config(
        connect_timeout=section.timeout_s,
        read_timeout=section.timeout_s,
        retries={"total_max_attempts": 1},
    )
    try:
        core = botocore.session.get_session()
        core.register_component("data_loader", _descriptions(core.get_config_variable("data_path")))
        session = boto3.session.Session(
            region_name=section.region, botocore_session=core, **secrets
        )
        client = session.client("ec2", endpoint_url=section.endpoint or None, config=config)
    except TypeError as error:
        names = "aws_access_key_id, aws_secret_access_key and aws_session_token"
        raise ProviderFailed(f"{section.credentials}: an unknown name; {names}") from error
    except ValueError as error:
        raise ProviderFailed(f"ec2: {error}") from error
    return Ec2Provider(
        client=client,
        section=section,
        cluster=cluster,
        is_spot=pool.spot,
        host_key=pool.host_key,
    )


def machine_of(instance: Mapping[str, Any]) -> ProviderMachine:
    """Return an instance as a machine."""
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
def translated_errors(verb: str, harmless: str = "") -> Iterator[None]:
    """Raise what a balancer knows in place of boto's errors; `gone` is no error.

    An answer of another form than EC2's is a failure, too: some clouds speak only nearly so.
    """
    from botocore import exceptions as boto

    try:
        yield
    except boto.ClientError as error:
        if _code(error) != harmless:
            raise kind_of(_code(error))(f"ec2 {verb}: {_words(error)}") from error
    except (boto.ConnectionError, boto.HTTPClientError) as error:
        raise AskAgain(f"ec2 {verb}: {_words(error)}") from error
    except (boto.BotoCoreError, ParseError) as error:
        raise ProviderFailed(f"ec2 {verb}: {_words(error)}") from error
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        odd = f"an answer that can't be read ({type(error).__name__}: {_words(error)})"
        raise ProviderFailed(f"ec2 {verb}: {odd}") from error


def kind_of(code: str) -> Callable[[str], Exception]:
    """Return what an error code of EC2's means to a balancer."""
    if code in NO_CAPACITY:
        return NoCapacity
    return AskAgain if code in LATER else ProviderFailed


def _token(request: Mapping[str, object], generation: int) -> str:
    """Return 64 characters that are the same for the same wish, and no others."""
    text = json.dumps([generation, request], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _words(error: Exception) -> str:
    return " ".join(plain_words(error).split())


def _content(path: str) -> str:
    """Return what new machines are given to read; ProviderFailed when it can't be.

    Machines obey it as root, so nobody else may have written it.
    """
    if not path:
        return ""
    try:
        with open(provider_program.trusted(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderFailed(f"{path}: {plain_words(error)}") from error
