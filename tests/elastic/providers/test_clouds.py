"""The EC2 provider with boto3 against a local server, and the libcloud provider against an in-memory driver."""

import base64
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from libcloud.common.exceptions import BaseHTTPError
from libcloud.common.types import InvalidCredsError
from libcloud.compute.drivers.dummy import DummyNodeDriver
from libcloud.compute.types import NodeState

from gridbridge.elastic.providers import ec2 as module
from gridbridge.elastic.providers import libcloud
from gridbridge.elastic.providers.ec2 import Ec2MachineProvider
from gridbridge.elastic.providers.libcloud import LibcloudMachineProvider
from gridbridge.errors import (
    ProviderOutcomeUnknown,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
)
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from gridbridge.model.elastic.elastic_nodes import HOST_KEY_TAG, ProviderMachineState
from tests.elastic.providers.cloud import Gate
from tests.elastic.providers.test_command_provider import ED25519, PRINTED

Ec2 = Callable[..., Ec2MachineProvider]
TAGS = {"gridbridge": "alpha", "gridbridge-pool": "small"}


def instance(provider: Ec2MachineProvider, id_: str) -> dict[str, Any]:
    (group,) = provider.client.describe_instances(InstanceIds=[id_])["Reservations"]
    (found,) = group["Instances"]
    assert isinstance(found, dict)
    return found


def test_a_machine_and_its_disk_are_created_with_tags(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()

    made = provider.create_machine("alpha-n7", TAGS)

    assert 0 == gate.seen["CreateTags"]
    disk = [{"Name": "attachment.instance-id", "Values": [made.id]}]
    (volume,) = provider.client.describe_volumes(Filters=disk)["Volumes"]
    expected = {**TAGS, "Name": "alpha-n7"}
    assert expected == {tag["Key"]: tag["Value"] for tag in volume["Tags"]}
    assert expected == {tag["Key"]: tag["Value"] for tag in instance(provider, made.id)["Tags"]}


def test_the_properties_of_a_machine_come_from_pool_and_provider(ec2: Ec2, tmp_path: Path) -> None:
    provider = ec2(size="m5.large", spot=True)
    (tmp_path / "begin").write_text("#cloud-config\n")
    provider.client.create_key_pair(KeyName="grid")
    (net, *_) = provider.client.describe_subnets()["Subnets"]
    group = provider.client.create_security_group(GroupName="grid", Description="grid", VpcId=net["VpcId"])["GroupId"]
    keys = {"key_name": "grid", "subnet": net["SubnetId"], "security_groups": group}
    section = replace(provider.section, **keys, user_data=str(tmp_path / "begin"))

    made = replace(provider, section=section).create_machine("alpha-n7", TAGS)

    found = instance(provider, made.id)
    properties = [found[name] for name in ("InstanceType", "KeyName", "InstanceLifecycle", "SubnetId")]
    assert ["m5.large", "grid", "spot", net["SubnetId"]] == properties
    assert [group] == [each["GroupId"] for each in found["SecurityGroups"]]
    data = provider.client.describe_instance_attribute(InstanceId=made.id, Attribute="userData")
    assert b"#cloud-config\n" == base64.b64decode(data["UserData"]["Value"])
    assert made.address == found["PrivateIpAddress"]


@pytest.mark.parametrize("spot", [False, True])
def test_a_machine_that_shuts_down_is_terminated(ec2: Ec2, spot: bool) -> None:
    provider = ec2(spot=spot)
    made = provider.create_machine("alpha-n7", TAGS)

    told = provider.client.describe_instance_attribute(
        InstanceId=made.id, Attribute="instanceInitiatedShutdownBehavior"
    )

    assert {"Value": "terminate"} == told["InstanceInitiatedShutdownBehavior"]


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"State": {"Name": "running"}}, "KeyError: 'InstanceId'"),
        ({"InstanceId": "i-1"}, "KeyError: 'State'"),
        ({"InstanceId": "i-1", "State": None}, "TypeError: "),
        ({"InstanceId": 7, "State": {"Name": "running"}}, "TypeError: "),
        ({"InstanceId": "i-1", "State": {"Name": "running"}, "Tags": [{"Key": "a"}]}, "'Value'"),
        (None, "AttributeError: "),
    ],
)
def test_the_error_about_an_unreadable_answer_says_why(ec2: Ec2, odd: dict[str, object] | None, words: str) -> None:
    provider = replace(ec2(), client=Odd([odd]))

    with pytest.raises(ProviderPermanentFailure, match=f"ec2 list: unreadable answer.*{words}"):
        provider.list_machines()
    with pytest.raises(ProviderPermanentFailure, match=f"ec2 create: unreadable answer.*{words}"):
        provider.create_machine("alpha-n7", TAGS)


@pytest.mark.parametrize("instances", [[], [{}, {}]])
def test_an_answer_with_other_than_one_machine_is_refused(ec2: Ec2, instances: list[dict[str, object]]) -> None:
    with pytest.raises(ProviderPermanentFailure, match="ec2 create: unreadable answer"):
        replace(ec2(), client=Odd(instances)).create_machine("alpha-n7", TAGS)


class Odd:
    def __init__(self, instances: list[Any]) -> None:
        self.instances = instances

    def get_paginator(self, _: str) -> "Odd":
        return self

    def paginate(self, **_: object) -> list[dict[str, Any]]:
        return [{"Reservations": [{"Instances": self.instances}]}]

    def run_instances(self, **_: object) -> dict[str, Any]:
        return {"Instances": self.instances}


def test_a_repeated_creation_after_a_lost_answer_makes_no_second_machine(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    gate.loses.add("RunInstances")
    with pytest.raises(ProviderOutcomeUnknown):
        provider.create_machine("alpha-n7", TAGS)

    made = provider.create_machine("alpha-n7", TAGS)

    assert 2 == gate.seen["RunInstances"]
    assert [made.id] == [one.id for one in provider.list_machines()]


def test_a_throttled_creation_is_repeated_after_a_pause(ec2: Ec2, gate: Gate) -> None:
    """EC2 allows five creations at once, and then two a second."""
    gate.refusals["RunInstances"] = "RequestLimitExceeded"
    paused = list[float]()

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            gate.refusals.clear()

    made = replace(ec2(), pause=pause).create_machine("alpha-n7", TAGS)

    assert ([1.0, 2.0], made.id) == (paused, ec2().list_machines()[0].id)


def test_a_creation_that_is_throttled_for_long_is_left_to_the_next_round(ec2: Ec2, gate: Gate) -> None:
    gate.refusals["RunInstances"] = "RequestLimitExceeded"
    paused = list[float]()

    with pytest.raises(ProviderRequestRepeatable):
        replace(ec2(), pause=paused.append).create_machine("alpha-n7", TAGS)
    assert (15.0, 5) == (sum(paused), gate.seen["RunInstances"])


def test_requests_that_differ_in_anything_make_different_machines(ec2: Ec2) -> None:
    wishes = (
        (ec2(), "alpha-n7", TAGS),
        (ec2(), "alpha-n8", TAGS),
        (ec2(), "alpha-n7", {**TAGS, "site": "2"}),
        (ec2(size="m5.large"), "alpha-n7", TAGS),
    )

    made = {provider.create_machine(name, tags).id for provider, name, tags in wishes}

    assert 4 == len(made)


def test_all_pages_of_a_machine_list_are_read(ec2: Ec2, monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    monkeypatch.setattr(module, "PAGE", 5)
    provider = ec2()
    made = {provider.create_machine(f"alpha-n{number}", TAGS).id for number in range(12)}

    assert made == {one.id for one in provider.list_machines()}
    assert 3 == gate.seen["DescribeInstances"]


def test_a_failed_page_fails_the_whole_list(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    provider.create_machine("alpha-n7", TAGS)
    gate.refusals["DescribeInstances"] = "InternalError"

    with pytest.raises(ProviderOutcomeUnknown, match=r"ec2 list: .*words of InternalError"):
        provider.list_machines()


def test_machines_without_the_owner_tag_are_not_listed(ec2: Ec2) -> None:
    provider = ec2()
    image = provider.section.image
    provider.client.run_instances(ImageId=image, MinCount=1, MaxCount=1)

    assert () == provider.list_machines()


def test_a_host_key_is_read_once_from_the_console_and_stored_in_a_tag(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    made = provider.create_machine("alpha-n7", TAGS)
    other = provider.create_machine("omega-n1", {"gridbridge": "omega"})
    gate.consoles[other.id] = PRINTED

    before = {one.id: one.host_key for one in provider.list_machines()}
    gate.consoles[made.id] = PRINTED
    learnt = {one.id: one.host_key for one in provider.list_machines()}
    gate.consoles[made.id] = ""
    kept = {one.id: one.host_key for one in provider.list_machines()}

    assert {made.id: "", other.id: ""} == before
    assert {made.id: ED25519, other.id: ""} == learnt == kept
    assert 2 == gate.seen["GetConsoleOutput"]


def test_the_console_of_an_old_machine_without_a_key_is_not_read(ec2: Ec2, gate: Gate) -> None:
    ec2().create_machine("alpha-n7", TAGS)
    later = replace(ec2(), now=lambda: datetime.now(UTC) + timedelta(hours=3))

    assert [""] == [one.host_key for one in later.list_machines()]
    assert 0 == gate.seen["GetConsoleOutput"]


def test_a_throttled_console_delays_only_the_host_key(ec2: Ec2, gate: Gate) -> None:
    """A forbidden console fails the list. Without a host key no machine could ever join."""
    provider = ec2()
    made = provider.create_machine("alpha-n7", TAGS)
    gate.refusals["GetConsoleOutput"] = "RequestLimitExceeded"
    assert [(made.id, "")] == [(one.id, one.host_key) for one in provider.list_machines()]

    gate.refusals["GetConsoleOutput"] = "UnauthorizedOperation"
    with pytest.raises(ProviderPermanentFailure, match="GetConsoleOutput"):
        provider.list_machines()


def test_the_console_of_an_older_machine_type_is_read_without_the_latest_output(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    made = provider.create_machine("alpha-n7", TAGS)
    gate.consoles[made.id] = PRINTED
    gate.has_latest = False

    assert [ED25519] == [one.host_key for one in provider.list_machines()]


def test_the_host_key_of_an_image_is_stored_as_a_tag(ec2: Ec2, gate: Gate) -> None:
    made = ec2(host_key=ED25519).create_machine("alpha-n7", TAGS)

    assert (ED25519, ED25519) == (made.host_key, made.tags[HOST_KEY_TAG])
    assert 0 == gate.seen["GetConsoleOutput"]


def test_an_invalid_host_key_tag_refuses_the_list(ec2: Ec2) -> None:
    provider = ec2()
    made = provider.create_machine("alpha-n7", TAGS)
    tag = {"Key": HOST_KEY_TAG, "Value": "ssh-ed25519 AAAA"}
    provider.client.create_tags(Resources=[made.id], Tags=[tag])

    with pytest.raises(ProviderPermanentFailure, match=r"ec2 list: host_key = "):
        provider.list_machines()


def test_terminated_machines_are_gone_and_stopping_machines_are_stopped(ec2: Ec2) -> None:
    provider = ec2()
    made = provider.create_machine("alpha-n7", TAGS)
    provider.destroy_machine(made)
    answer = instance(provider, made.id)

    assert ProviderMachineState.GONE is module.machine_from_ec2_instance(answer).state
    for word, state in (("stopping", ProviderMachineState.STOPPED), ("melted", ProviderMachineState.UNKNOWN)):
        assert state is module.machine_from_ec2_instance({**answer, "State": {"Name": word}}).state


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("MaxSpotInstanceCountExceeded", ProviderOutOfMachines),
        ("Unavailable", ProviderRequestRepeatable),
        ("InvalidParameterValue", ProviderPermanentFailure),
    ],
)
def test_an_error_quotes_the_cloud(ec2: Ec2, gate: Gate, code: str, expected: type[Exception]) -> None:
    gate.refusals["RunInstances"] = code

    with pytest.raises(expected, match=f"^ec2 create: .*words of {code}$"):
        ec2().create_machine("alpha-n7", TAGS)
    assert 1 == gate.seen["RunInstances"]


def test_a_request_without_an_answer_is_stopped_at_the_timeout(ec2: Ec2, gate: Gate) -> None:
    impatient = module.make_ec2_provider(replace(ec2().section, timeout_s=1), NodePoolSection(), "alpha")
    gate.hangs = True

    with pytest.raises(ProviderOutcomeUnknown, match="ec2 list: Read timeout"):
        impatient.list_machines()
    assert 1 == gate.seen["DescribeInstances"]


def test_an_unreachable_cloud_is_an_unknown_outcome(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    section = replace(provider.section, endpoint="http://127.0.0.1:9")
    unreachable = module.make_ec2_provider(section, NodePoolSection(), "alpha")

    with pytest.raises(ProviderOutcomeUnknown, match=r"ec2 list: Could not connect"):
        unreachable.list_machines()
    assert not gate.seen


@pytest.mark.parametrize(("name", "why"), [("none", "/none: "), ("begin", "others could have written")])
def test_a_missing_or_untrusted_user_data_file_is_refused(ec2: Ec2, tmp_path: Path, name: str, why: str) -> None:
    provider = ec2()
    (tmp_path / "begin").write_text("#cloud-config\n")
    (tmp_path / "begin").chmod(0o666)
    section = replace(provider.section, user_data=str(tmp_path / name))

    with pytest.raises(ProviderPermanentFailure, match=why):
        replace(provider, section=section).create_machine("alpha-n7", TAGS)
    assert () == provider.list_machines()


def test_an_invalid_endpoint_is_a_permanent_failure(ec2: Ec2) -> None:
    section = replace(ec2().section, endpoint="http://[/")

    with pytest.raises(ProviderPermanentFailure, match=r"^ec2: "):
        module.make_ec2_provider(section, NodePoolSection(), "alpha")


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


def test_the_host_key_of_an_image_is_stored_as_a_tag_by_libcloud(labelled: LibcloudMachineProvider) -> None:
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

    assert {"error", "unknown"} == words - set(libcloud.STATES)


@pytest.mark.parametrize(("driver", "words"), [("nowhere", "nowhere"), ("dummy", "unexpected keyword")])
def test_an_unknown_driver_or_argument_is_refused(labelled: LibcloudMachineProvider, driver: str, words: str) -> None:
    section = replace(labelled.section, driver=driver)

    with pytest.raises(ProviderPermanentFailure, match=f"^libcloud begin: .*{words}"):
        libcloud.make_libcloud_provider(section, NodePoolSection(), "alpha")
