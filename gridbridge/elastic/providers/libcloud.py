"""Creates and destroys machines of any cloud that has an Apache Libcloud driver.

Drivers that can't tag machines are refused: the balancer would not recognize its own machines.
"""

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from threading import RLock
from typing import Any

from gridbridge import errors
from gridbridge.elastic.providers import provider_protocol_and_validation, site_program_provider
from gridbridge.model.elastic.balancer_config_sections import MachineProviderSection, NodePoolSection
from gridbridge.model.elastic.elastic_nodes import HOST_KEY_TAG, ProviderMachine, ProviderMachineState
from gridbridge.shell.optional_libraries import missing_library_message

TAGS = {
    "ex_metadata": "metadata",
    "ex_tags": "tags",
    "ex_labels": "labels",
}  # for each driver argument that sets tags: the key of a node's `extra` that shows the tags
STATES = {  # states of libcloud.compute.types.NodeState
    "running": ProviderMachineState.RUNNING,
    "normal": ProviderMachineState.RUNNING,
    "rebooting": ProviderMachineState.PENDING,
    "pending": ProviderMachineState.PENDING,
    "starting": ProviderMachineState.PENDING,
    "reconfiguring": ProviderMachineState.PENDING,
    "updating": ProviderMachineState.PENDING,
    "migrating": ProviderMachineState.PENDING,
    "stopping": ProviderMachineState.STOPPED,
    "stopped": ProviderMachineState.STOPPED,
    "suspended": ProviderMachineState.STOPPED,
    "paused": ProviderMachineState.STOPPED,
    "terminated": ProviderMachineState.GONE,
}
NO_CAPACITY = (403, 413)  # statuses for an exhausted quota (OpenStack Compute API, "Create Server")
REFUSED = (425, 429, 503)  # HTTP statuses after which no machine was created
LATER = (*REFUSED, 408, 500, 502, 504)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibcloudMachineProvider:
    """The machines of a Libcloud driver; the driver's single connection runs all calls one after another."""

    driver: Any
    section: MachineProviderSection
    host_key: str = ""
    cluster: str = ""  # the cluster whose machines must have valid names and tags
    turn: RLock = field(default_factory=RLock)

    def create_machine(self, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Create a machine with its tags in one request."""
        with self.turn, translate_libcloud_errors("create", NO_CAPACITY, REFUSED):
            own_key = {HOST_KEY_TAG: self.host_key} if self.host_key else {}
            options: dict[str, object] = {self._tag_argument_name(): {**tags, **own_key}}
            if self.section.key_name:
                options |= {"ex_keyname": self.section.key_name}
            image, size = (
                self._image_for_new_machines(),
                _find_driver_entry_by_name(self.driver.list_sizes(), self.section.size, "size"),
            )
            node = self.driver.create_node(name=name, image=image, size=size, **options)
        with self.turn, translate_libcloud_errors("create"):
            return self._require_recognizable_machine(node, name, tags)

    def destroy_machine(self, machine: ProviderMachine) -> None:
        with self.turn, translate_libcloud_errors("destroy"):
            for node in [node for node in self.driver.list_nodes() if str(node.id) == machine.id]:
                _require_driver_success("destroy", self.driver.destroy_node(node))

    def list_machines(self) -> tuple[ProviderMachine, ...]:
        with self.turn, translate_libcloud_errors("list"):
            return provider_protocol_and_validation.require_valid_provider_machines(
                map(machine_from_libcloud_node, self.driver.list_nodes()), self.cluster
            )

    def _require_recognizable_machine(self, new_node: Any, name: str, tags: Mapping[str, str]) -> ProviderMachine:
        """Return a new machine as the driver lists it; destroy a machine that the balancer can't recognize."""
        listed = [candidate for candidate in self.driver.list_nodes() if candidate.id == new_node.id]
        node = listed[0] if listed else new_node
        machine = machine_from_libcloud_node(node)
        if machine.name == name and tags.items() <= machine.tags.items():
            return provider_protocol_and_validation.require_valid_provider_machine(machine)
        why = f"machine {machine.id}: driver {self.section.driver} does not keep the machine's name and tags"
        try:
            _require_driver_success("destroy", self.driver.destroy_node(node))
        except Exception as error:  # some drivers raise Exception itself
            _log.error("event=untagged machine=%r name=%r why=%r", machine.id, name, errors.error_on_one_line(error))
            mend = f"destroy machine {machine.id} ({name}) with the cloud's tools"
            raise errors.ProviderPermanentFailure(f"libcloud create: {why}; {mend}") from error
        _log.error("event=untagged machine=%r why='removed again'", machine.id)
        raise errors.ProviderPermanentFailure(f"libcloud create: {why}; the machine was removed again")

    def _tag_argument_name(self) -> str:
        parameters = inspect.signature(self.driver.create_node).parameters
        ways = [way for way in TAGS if way in parameters]
        if not ways:
            raise errors.ProviderPermanentFailure(f"libcloud: driver {self.section.driver} can't tag its machines")
        return ways[0]

    def _image_for_new_machines(self) -> Any:
        try:
            return self.driver.get_image(self.section.image)
        except NotImplementedError:
            return _find_driver_entry_by_name(self.driver.list_images(), self.section.image, "image")


def make_libcloud_provider(
    section: MachineProviderSection, pool: NodePoolSection, cluster: str
) -> LibcloudMachineProvider:
    try:
        import libcloud.compute.providers as providers
    except ImportError as error:
        raise errors.ProviderPermanentFailure(missing_library_message("libcloud")) from error
    drivers: Any = providers
    secrets = site_program_provider.read_private_credentials(section.credentials) if section.credentials else {}
    location = {"region": section.region} if section.region else {}
    with translate_libcloud_errors("begin"):
        driver = drivers.get_driver(section.driver)
        opened = driver(**location, **secrets, **section.arguments, timeout=section.timeout_s)
    return LibcloudMachineProvider(driver=opened, section=section, host_key=pool.host_key, cluster=cluster)


def machine_from_libcloud_node(node: Any) -> ProviderMachine:
    extra = node.extra or {}
    tables = (_tags_of_libcloud_node(extra.get(key)) for key in TAGS.values())
    tags: dict[str, str] = next((table for table in tables if table), {})
    addresses = [*node.private_ips, *node.public_ips]
    created = node.created_at  # a time without a zone is in UTC
    return ProviderMachine(
        id=str(node.id),
        name=str(node.name),
        state=STATES.get(str(node.state), ProviderMachineState.UNKNOWN),
        address=str(addresses[0]) if addresses else "",
        tags={str(key): str(value) for key, value in tags.items() if key != "Name"},
        host_key=str(tags.get(HOST_KEY_TAG, "")),
        created=created.replace(tzinfo=UTC) if created and created.tzinfo is None else created,
    )


def _tags_of_libcloud_node(content: object) -> dict[str, str]:
    """Return a driver's tags as a dict, empty for an unknown type; GCE lists metadata as pairs."""
    if not isinstance(content, dict):
        return {}
    if isinstance(items := content.get("items"), list):
        return {entry["key"]: entry.get("value", "") for entry in items}
    return content


@contextmanager
def translate_libcloud_errors(
    verb: str, no_capacity: tuple[int, ...] = (), refused: tuple[int, ...] = ()
) -> Iterator[None]:
    try:
        yield
    except (errors.ProviderOutOfMachines, errors.ProviderOutcomeUnknown, errors.ProviderPermanentFailure):
        raise
    except errors.ParseError as error:
        raise errors.ProviderPermanentFailure(f"libcloud {verb}: {error}") from error
    except NotImplementedError as error:
        raise errors.ProviderPermanentFailure(f"libcloud {verb}: the driver lacks this function") from error
    except OSError as error:  # network errors, including errors of package `requests`
        raise errors.ProviderOutcomeUnknown(f"libcloud {verb}: {errors.error_on_one_line(error)}") from error
    except Exception as error:  # some drivers raise Exception itself
        codes = (
            (no_capacity, errors.ProviderOutOfMachines),
            (refused, errors.ProviderRequestRepeatable),
            (LATER, errors.ProviderOutcomeUnknown),
        )
        code = getattr(error, "code", None)
        kind = next((kind for group, kind in codes if code in group), errors.ProviderPermanentFailure)
        raise kind(f"libcloud {verb}: {errors.error_on_one_line(error)}") from error


def _require_driver_success(verb: str, is_done: object) -> None:
    """Raise ProviderOutcomeUnknown if a driver reports no success, because the cloud may still have acted."""
    if is_done is False:
        raise errors.ProviderOutcomeUnknown(f"libcloud {verb}: the cloud did nothing")


def _find_driver_entry_by_name(entries: list[Any], name: str, noun: str) -> Any:
    for entry in entries:
        if name in (str(entry.id), entry.name):
            return entry
    raise errors.ProviderPermanentFailure(f"libcloud create: {noun} {name}: the driver does not list this name")
