"""Clouds by libcloud, against its driver in memory."""

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

TAGS = {"gridbridge": "alpha", "gridbridge-pool": "small"}


def test_the_driver_is_given_its_secrets_its_arguments_and_our_limit(labelled: LibcloudMachineProvider) -> None:
    expected = {"region": "east", "timeout": 20, "ex_project": "hpc"}

    assert expected == labelled.driver.given
    assert "1" == labelled.driver.creds


def test_a_driver_that_can_t_tag_makes_nothing(labelled: LibcloudMachineProvider) -> None:
    plain = replace(labelled, driver=DummyNodeDriver("1"))
    before = len(plain.machines())

    with pytest.raises(ProviderPermanentFailure, match="can't tag its machines"):
        plain.create("alpha-n7", TAGS)
    assert before == len(plain.machines())


def test_machines_of_others_are_listed_and_not_ours(labelled: LibcloudMachineProvider) -> None:
    plain = replace(labelled, driver=DummyNodeDriver("1"))

    assert ["dummy-0"] == [one.name for one in plain.machines()]
    assert not any(one.belongs_to("alpha") for one in plain.machines())


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
def test_a_machine_whose_tags_its_driver_does_not_keep_is_removed_again(
    labelled: LibcloudMachineProvider, keeps: Callable[[dict[str, str]], object]
) -> None:
    """Nobody would know whose it is, and each round would buy another one."""
    labelled.driver.keeps = keeps

    with pytest.raises(
        ProviderPermanentFailure, match="does not keep the machine's name and tags; the machine was removed"
    ):
        labelled.create("alpha-n7", TAGS)
    assert () == labelled.machines()


def test_an_untagged_machine_that_can_t_be_removed_is_told_by_its_id(
    labelled: LibcloudMachineProvider, caplog: pytest.LogCaptureFixture
) -> None:
    labelled.driver.keeps = list
    labelled.driver.does = False

    with pytest.raises(
        ProviderPermanentFailure, match=r"machine node-1: .*; end alpha-n7, machine node-1 with the cloud"
    ):
        labelled.create("alpha-n7", TAGS)
    assert "event=untagged machine='node-1' name='alpha-n7' why='libcloud destroy: the cloud did" in caplog.text


def test_the_items_in_which_gce_tells_metadata_are_tags(labelled: LibcloudMachineProvider) -> None:
    labelled.driver.keeps = lambda tags: {
        "kind": "compute#metadata",
        "fingerprint": "1",
        "items": [{"key": key, "value": value} for key, value in tags.items()],
    }

    made = labelled.create("alpha-n7", TAGS)

    assert TAGS == made.tags
    assert [True] == [one.belongs_to("alpha") for one in labelled.machines()]


def test_an_image_or_a_size_that_is_not_there_is_told(labelled: LibcloudMachineProvider) -> None:
    for key, wanted in (("image", "Plan 9"), ("size", "77")):
        section = replace(labelled.section, **{key: wanted})  # type: ignore[arg-type]
        with pytest.raises(ProviderPermanentFailure, match=f"{key} {wanted}: the driver has no such name"):
            replace(labelled, section=section).create("alpha-n7", TAGS)


def test_the_key_of_an_image_that_has_its_own_is_tagged(labelled: LibcloudMachineProvider) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEV1aZ0WJkmP6xhNJQmY0v5jWJ8dJ1l1kYx3hR2oNw8K"

    replace(labelled, host_key=key).create("alpha-n7", TAGS)

    assert [key] == [one.host_key for one in labelled.machines()]


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
def test_what_a_driver_raises_is_later_or_no_capacity_or_a_failure(
    labelled: LibcloudMachineProvider, error: BaseHTTPError, expected: type[Exception]
) -> None:
    labelled.driver.trouble["create"] = error

    with pytest.raises(expected, match=r"^libcloud create: ") as told:
        labelled.create("alpha-n7", TAGS)
    assert "\n" not in str(told.value)


def test_a_machine_that_was_made_is_not_asked_for_again(labelled: LibcloudMachineProvider) -> None:
    """Though the list, which is read afterwards, can't be had at once."""
    labelled.driver.trouble["list"] = BaseHTTPError(429, "slower")

    with pytest.raises(ProviderOutcomeUnknown) as told:
        labelled.create("alpha-n7", TAGS)
    assert ProviderOutcomeUnknown is told.type


def test_a_cloud_that_says_no_is_asked_later(labelled: LibcloudMachineProvider) -> None:
    made = labelled.create("alpha-n7", TAGS)
    labelled.driver.does = False

    with pytest.raises(ProviderOutcomeUnknown, match="the cloud did nothing"):
        labelled.destroy(made)


def test_a_moment_without_its_zone_is_in_utc(labelled: LibcloudMachineProvider) -> None:
    labelled.create("alpha-n7", TAGS)
    (node,) = labelled.driver.list_nodes()
    node.created_at = datetime(2026, 5, 4, 9)

    (listed,) = labelled.machines()

    assert datetime(2026, 5, 4, 9, tzinfo=UTC) == listed.created


def test_calls_side_by_side_come_one_after_the_other(labelled: LibcloudMachineProvider) -> None:
    """A driver has one connection."""
    labelled.driver.meeting = Barrier(2)
    names = ["alpha-n1", "alpha-n2"]

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda name: labelled.create(name, TAGS), names))

    assert names == [one.name for one in made]
    assert not labelled.driver.have_met


def test_a_driver_that_may_not_list_has_no_lack_of_capacity(labelled: LibcloudMachineProvider) -> None:
    labelled.driver.trouble["list"] = BaseHTTPError(403, "forbidden")

    with pytest.raises(ProviderPermanentFailure):
        labelled.machines()


def test_every_state_of_libcloud_has_one_of_ours() -> None:
    words = {str(value) for key, value in vars(NodeState).items() if key.isupper()}

    assert {"error", "unknown"} == words - set(module.STATES)


@pytest.mark.parametrize(("driver", "words"), [("nowhere", "nowhere"), ("dummy", "unexpected keyword")])
def test_a_driver_that_is_not_there_or_takes_other_words_is_told(
    labelled: LibcloudMachineProvider, driver: str, words: str
) -> None:
    section = replace(labelled.section, driver=driver)

    with pytest.raises(ProviderPermanentFailure, match=f"^libcloud begin: .*{words}"):
        module.make_libcloud_provider(section, NodePoolSection(), "alpha")
