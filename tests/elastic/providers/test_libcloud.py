"""The libcloud provider against an in-memory driver."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from threading import Barrier

import pytest
from libcloud.common.exceptions import BaseHTTPError
from libcloud.common.types import InvalidCredsError
from libcloud.compute.drivers.dummy import DummyNodeDriver
from libcloud.compute.types import NodeState

from gridbridge.elastic.providers import libcloud as module
from gridbridge.elastic.providers.libcloud import LibcloudMachineProvider
from gridbridge.errors import (
    ProviderOutcomeUnknown,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
)
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from tests.elastic.providers.test_command_provider import ED25519

TAGS = {"gridbridge": "alpha", "gridbridge-pool": "small"}


def test_the_driver_gets_credentials_arguments_and_timeout(labelled: LibcloudMachineProvider) -> None:
    expected = {"region": "east", "timeout": 20, "ex_project": "hpc"}

    assert expected == labelled.driver.given
    assert "1" == labelled.driver.creds


def test_a_driver_without_tags_creates_no_machine(labelled: LibcloudMachineProvider) -> None:
    plain = replace(labelled, driver=DummyNodeDriver("1"))
    before = len(plain.list_machines())

    with pytest.raises(ProviderPermanentFailure, match="can't tag its machines"):
        plain.create_machine("alpha-n7", TAGS)
    assert before == len(plain.list_machines())


def test_machines_of_others_are_listed_as_not_owned(labelled: LibcloudMachineProvider) -> None:
    plain = replace(labelled, driver=DummyNodeDriver("1"))

    assert ["dummy-0"] == [one.name for one in plain.list_machines()]
    assert not any(one.has_owner_tag_of_cluster("alpha") for one in plain.list_machines())


@pytest.mark.parametrize(
    "keeps",
    [
        lambda _: {},
        lambda tags: list(tags),
        lambda tags: {**tags, "gridbridge": "beta"},
        lambda _: {"kind": "compute#metadata", "fingerprint": "1"},
    ],
    ids=["none", "words alone", "another's", "GCE's without items"],
)
def test_a_machine_whose_tags_are_lost_is_removed_at_once(
    labelled: LibcloudMachineProvider, keeps: Callable[[dict[str, str]], object]
) -> None:
    labelled.driver.keeps = keeps

    with pytest.raises(
        ProviderPermanentFailure, match="does not keep the machine's name and tags; the machine was removed"
    ):
        labelled.create_machine("alpha-n7", TAGS)
    assert () == labelled.list_machines()


def test_the_error_about_an_untagged_machine_that_cannot_be_removed_has_its_id(
    labelled: LibcloudMachineProvider, caplog: pytest.LogCaptureFixture
) -> None:
    labelled.driver.keeps = list
    labelled.driver.does = False

    with pytest.raises(
        ProviderPermanentFailure, match=r"machine node-1: .*; destroy machine node-1 \(alpha-n7\) with the cloud"
    ):
        labelled.create_machine("alpha-n7", TAGS)
    assert "event=untagged machine='node-1' name='alpha-n7' why='libcloud destroy: the cloud did" in caplog.text


def test_metadata_items_of_gce_are_read_as_tags(labelled: LibcloudMachineProvider) -> None:
    labelled.driver.keeps = lambda tags: {
        "kind": "compute#metadata",
        "fingerprint": "1",
        "items": [{"key": key, "value": value} for key, value in tags.items()],
    }

    made = labelled.create_machine("alpha-n7", TAGS)

    assert TAGS == made.tags
    assert [True] == [one.has_owner_tag_of_cluster("alpha") for one in labelled.list_machines()]


def test_an_unknown_image_or_size_is_refused(labelled: LibcloudMachineProvider) -> None:
    for key, wanted in (("image", "Plan 9"), ("size", "77")):
        section = replace(labelled.section, **{key: wanted})  # type: ignore[arg-type]
        with pytest.raises(ProviderPermanentFailure, match=f"{key} {wanted}: the driver does not list this name"):
            replace(labelled, section=section).create_machine("alpha-n7", TAGS)


def test_the_host_key_of_an_image_is_stored_as_a_tag(labelled: LibcloudMachineProvider) -> None:
    replace(labelled, host_key=ED25519).create_machine("alpha-n7", TAGS)

    assert [ED25519] == [one.host_key for one in labelled.list_machines()]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BaseHTTPError(403, "quota\nexceeded"), ProviderOutOfMachines),
        (BaseHTTPError(413, "over limit"), ProviderOutOfMachines),
        (BaseHTTPError(429, "slower"), ProviderRequestRepeatable),
        (BaseHTTPError(503, "busy"), ProviderRequestRepeatable),
        (ConnectionResetError("gone"), ProviderOutcomeUnknown),
        (TimeoutError("late"), ProviderOutcomeUnknown),
        (BaseHTTPError(400, "no such network"), ProviderPermanentFailure),
        (InvalidCredsError("wrong key"), ProviderPermanentFailure),
        (Exception("a driver's own words"), ProviderPermanentFailure),
        (NotImplementedError(), ProviderPermanentFailure),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_the_exception_of_a_driver_decides_the_error_class(
    labelled: LibcloudMachineProvider, error: BaseHTTPError, expected: type[Exception]
) -> None:
    labelled.driver.trouble["create"] = error

    with pytest.raises(expected, match=r"^libcloud create: ") as told:
        labelled.create_machine("alpha-n7", TAGS)
    assert "\n" not in str(told.value)


def test_a_creation_with_a_failed_list_afterwards_is_an_unknown_outcome(labelled: LibcloudMachineProvider) -> None:
    labelled.driver.trouble["list"] = BaseHTTPError(429, "slower")

    with pytest.raises(ProviderOutcomeUnknown) as told:
        labelled.create_machine("alpha-n7", TAGS)
    assert ProviderOutcomeUnknown is told.type


def test_a_refused_destruction_is_an_unknown_outcome(labelled: LibcloudMachineProvider) -> None:
    made = labelled.create_machine("alpha-n7", TAGS)
    labelled.driver.does = False

    with pytest.raises(ProviderOutcomeUnknown, match="the cloud did nothing"):
        labelled.destroy_machine(made)


def test_a_creation_time_without_a_zone_is_utc(labelled: LibcloudMachineProvider) -> None:
    labelled.create_machine("alpha-n7", TAGS)
    (node,) = labelled.driver.list_nodes()
    node.created_at = datetime(2026, 5, 4, 9)

    (listed,) = labelled.list_machines()

    assert datetime(2026, 5, 4, 9, tzinfo=UTC) == listed.created


def test_parallel_calls_of_a_driver_run_one_after_the_other(labelled: LibcloudMachineProvider) -> None:
    labelled.driver.meeting = Barrier(2)
    names = ["alpha-n1", "alpha-n2"]

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda name: labelled.create_machine(name, TAGS), names))

    assert names == [one.name for one in made]
    assert not labelled.driver.have_met


def test_a_forbidden_list_is_not_a_lack_of_capacity(labelled: LibcloudMachineProvider) -> None:
    labelled.driver.trouble["list"] = BaseHTTPError(403, "forbidden")

    with pytest.raises(ProviderPermanentFailure):
        labelled.list_machines()


def test_every_state_of_libcloud_is_mapped() -> None:
    words = {str(value) for key, value in vars(NodeState).items() if key.isupper()}

    assert {"error", "unknown"} == words - set(module.STATES)


@pytest.mark.parametrize(("driver", "words"), [("nowhere", "nowhere"), ("dummy", "unexpected keyword")])
def test_an_unknown_driver_or_argument_is_refused(labelled: LibcloudMachineProvider, driver: str, words: str) -> None:
    section = replace(labelled.section, driver=driver)

    with pytest.raises(ProviderPermanentFailure, match=f"^libcloud begin: .*{words}"):
        module.make_libcloud_provider(section, NodePoolSection(), "alpha")
