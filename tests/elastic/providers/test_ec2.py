"""EC2 by boto3, against a local server: what is asked, what is believed, and what errors mean."""

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gridbridge.elastic.providers import ec2 as module
from gridbridge.elastic.providers.ec2 import Ec2MachineProvider, error_class_of_ec2_code
from gridbridge.errors import (
    ProviderOutcomeUnknown,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
)
from gridbridge.model.elastic.balancer_config_sections import NodePoolSection
from gridbridge.model.elastic.elastic_nodes import HOST_KEY_TAG, ProviderMachineState
from tests.elastic.providers.cloud import Gate
from tests.elastic.providers.test_console_host_key import ED25519, PRINTED

Ec2 = Callable[..., Ec2MachineProvider]
TAGS = {"gridbridge": "alpha", "gridbridge-pool": "small"}


def instance(provider: Ec2MachineProvider, id_: str) -> dict[str, Any]:
    (group,) = provider.client.describe_instances(InstanceIds=[id_])["Reservations"]
    (found,) = group["Instances"]
    assert isinstance(found, dict)
    return found


def test_the_machine_and_its_disk_have_their_tags_from_the_beginning(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()

    made = provider.create("alpha-n7", TAGS)

    assert 0 == gate.seen["CreateTags"]
    disk = [{"Name": "attachment.instance-id", "Values": [made.id]}]
    (volume,) = provider.client.describe_volumes(Filters=disk)["Volumes"]
    expected = {**TAGS, "Name": "alpha-n7"}
    assert expected == {tag["Key"]: tag["Value"] for tag in volume["Tags"]}
    assert expected == {tag["Key"]: tag["Value"] for tag in instance(provider, made.id)["Tags"]}


def test_what_a_machine_is_made_of_comes_from_its_pool_and_its_provider(ec2: Ec2, tmp_path: Path) -> None:
    provider = ec2(size="m5.large", spot=True)
    (tmp_path / "begin").write_text("#cloud-config\n")
    provider.client.create_key_pair(KeyName="grid")
    (net, *_) = provider.client.describe_subnets()["Subnets"]
    group = provider.client.create_security_group(GroupName="grid", Description="grid", VpcId=net["VpcId"])["GroupId"]
    section = replace(
        provider.section,
        key_name="grid",
        subnet=net["SubnetId"],
        security_groups=group,
        user_data=str(tmp_path / "begin"),
    )

    made = replace(provider, section=section).create("alpha-n7", TAGS)

    found = instance(provider, made.id)
    assert ("m5.large", "grid", "spot", net["SubnetId"]) == (
        found["InstanceType"],
        found["KeyName"],
        found["InstanceLifecycle"],
        found["SubnetId"],
    )
    assert [group] == [each["GroupId"] for each in found["SecurityGroups"]]
    data = provider.client.describe_instance_attribute(InstanceId=made.id, Attribute="userData")
    assert b"#cloud-config\n" == base64.b64decode(data["UserData"]["Value"])
    assert made.address == found["PrivateIpAddress"]


@pytest.mark.parametrize("spot", [False, True])
def test_a_machine_that_shuts_itself_down_is_gone(ec2: Ec2, spot: bool) -> None:
    """A stopped one would be neither a node nor gone."""
    provider = ec2(spot=spot)
    made = provider.create("alpha-n7", TAGS)

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
def test_an_odd_answer_is_a_failure_that_says_what_was_wrong(
    ec2: Ec2, odd: dict[str, object] | None, words: str
) -> None:
    """Of a list as of a new machine; it must not end the round of all others."""
    provider = replace(ec2(), client=Odd([odd]))

    with pytest.raises(ProviderPermanentFailure, match=f"ec2 list: unreadable answer.*{words}"):
        provider.machines()
    with pytest.raises(ProviderPermanentFailure, match=f"ec2 create: unreadable answer.*{words}"):
        provider.create("alpha-n7", TAGS)


@pytest.mark.parametrize("instances", [[], [{}, {}]])
def test_another_number_of_machines_than_one_is_a_failure(ec2: Ec2, instances: list[dict[str, object]]) -> None:
    with pytest.raises(ProviderPermanentFailure, match="ec2 create: unreadable answer"):
        replace(ec2(), client=Odd(instances)).create("alpha-n7", TAGS)


class Odd:
    """A cloud that answers with these instances, whatever it is asked."""

    def __init__(self, instances: list[Any]) -> None:
        self.instances = instances

    def get_paginator(self, _: str) -> "Odd":
        """Return what asks for pages."""
        return self

    def paginate(self, **_: object) -> list[dict[str, Any]]:
        """Return the only page."""
        return [{"Reservations": [{"Instances": self.instances}]}]

    def run_instances(self, **_: object) -> dict[str, Any]:
        """Return what was made."""
        return {"Instances": self.instances}


def test_an_answer_that_is_lost_never_makes_two(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    gate.loses.add("RunInstances")
    with pytest.raises(ProviderOutcomeUnknown):
        provider.create("alpha-n7", TAGS)

    made = provider.create("alpha-n7", TAGS)

    assert 2 == gate.seen["RunInstances"]
    assert [made.id] == [one.id for one in provider.machines()]


def test_who_makes_many_at_once_waits_for_a_turn(ec2: Ec2, gate: Gate) -> None:
    """EC2 lets five be made at once, and then two a second."""
    gate.refusals["RunInstances"] = "RequestLimitExceeded"
    paused = list[float]()

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            gate.refusals.clear()

    made = replace(ec2(), pause=pause).create("alpha-n7", TAGS)

    assert ([1.0, 2.0], made.id) == (paused, ec2().machines()[0].id)


def test_who_has_no_turn_for_long_asks_in_the_next_round(ec2: Ec2, gate: Gate) -> None:
    gate.refusals["RunInstances"] = "RequestLimitExceeded"
    paused = list[float]()

    with pytest.raises(ProviderRequestRepeatable):
        replace(ec2(), pause=paused.append).create("alpha-n7", TAGS)
    assert (15.0, 5) == (sum(paused), gate.seen["RunInstances"])


def test_another_wish_is_another_machine(ec2: Ec2) -> None:
    """The name, the tags and what it is made of are all of the wish."""
    wishes = (
        (ec2(), "alpha-n7", TAGS),
        (ec2(), "alpha-n8", TAGS),
        (ec2(), "alpha-n7", {**TAGS, "site": "2"}),
        (ec2(size="m5.large"), "alpha-n7", TAGS),
    )

    made = {provider.create(name, tags).id for provider, name, tags in wishes}

    assert 4 == len(made)


def test_each_page_of_a_list_is_read(ec2: Ec2, monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    monkeypatch.setattr(module, "PAGE", 5)
    provider = ec2()
    made = {provider.create(f"alpha-n{number}", TAGS).id for number in range(12)}

    assert made == {one.id for one in provider.machines()}
    assert 3 == gate.seen["DescribeInstances"]


def test_a_page_that_fails_fails_the_list(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    provider.create("alpha-n7", TAGS)
    gate.refusals["DescribeInstances"] = "InternalError"

    with pytest.raises(ProviderOutcomeUnknown, match=r"ec2 list: .*words of InternalError"):
        provider.machines()


def test_machines_without_our_tag_are_not_listed(ec2: Ec2) -> None:
    provider = ec2()
    image = provider.section.image
    provider.client.run_instances(ImageId=image, MinCount=1, MaxCount=1)

    assert () == provider.machines()


def test_a_host_key_is_learnt_once_from_the_console(ec2: Ec2, gate: Gate) -> None:
    """And kept in a tag, since a console forgets."""
    provider = ec2()
    made = provider.create("alpha-n7", TAGS)
    other = provider.create("omega-n1", {"gridbridge": "omega"})
    gate.consoles[other.id] = PRINTED

    before = {one.id: one.host_key for one in provider.machines()}
    gate.consoles[made.id] = PRINTED
    learnt = {one.id: one.host_key for one in provider.machines()}
    gate.consoles[made.id] = ""
    kept = {one.id: one.host_key for one in provider.machines()}

    assert {made.id: "", other.id: ""} == before
    assert {made.id: ED25519, other.id: ""} == learnt == kept
    assert 2 == gate.seen["GetConsoleOutput"]


def test_a_console_that_never_told_a_key_is_read_no_more(ec2: Ec2, gate: Gate) -> None:
    """Else each round reads twenty of them one after the other, where images print no key."""
    ec2().create("alpha-n7", TAGS)
    later = replace(ec2(), now=lambda: datetime.now(UTC) + timedelta(hours=3))

    assert [""] == [one.host_key for one in later.machines()]
    assert 0 == gate.seen["GetConsoleOutput"]


def test_a_console_that_is_shown_later_keeps_no_list_from_being_read(ec2: Ec2, gate: Gate) -> None:
    """One that may never be read does: nothing could join."""
    provider = ec2()
    made = provider.create("alpha-n7", TAGS)
    gate.refusals["GetConsoleOutput"] = "RequestLimitExceeded"
    assert [(made.id, "")] == [(one.id, one.host_key) for one in provider.machines()]

    gate.refusals["GetConsoleOutput"] = "UnauthorizedOperation"
    with pytest.raises(ProviderPermanentFailure, match="GetConsoleOutput"):
        provider.machines()


def test_an_older_size_shows_its_console_without_the_latest(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    made = provider.create("alpha-n7", TAGS)
    gate.consoles[made.id] = PRINTED
    gate.has_latest = False

    assert [ED25519] == [one.host_key for one in provider.machines()]


def test_the_key_of_an_image_that_has_its_own_is_tagged(ec2: Ec2, gate: Gate) -> None:
    made = ec2(host_key=ED25519).create("alpha-n7", TAGS)

    assert (ED25519, ED25519) == (made.host_key, made.tags[HOST_KEY_TAG])
    assert 0 == gate.seen["GetConsoleOutput"]


def test_a_tag_that_is_no_host_key_refuses_the_list(ec2: Ec2) -> None:
    provider = ec2()
    made = provider.create("alpha-n7", TAGS)
    tag = {"Key": HOST_KEY_TAG, "Value": "ssh-ed25519 AAAA"}
    provider.client.create_tags(Resources=[made.id], Tags=[tag])

    with pytest.raises(ProviderPermanentFailure, match=r"ec2 list: host_key = "):
        provider.machines()


def test_a_machine_that_ended_is_gone_and_a_stopping_one_is_stopped(ec2: Ec2) -> None:
    provider = ec2()
    made = provider.create("alpha-n7", TAGS)
    provider.destroy(made)
    answer = instance(provider, made.id)

    assert ProviderMachineState.GONE is module.machine_from_ec2_instance(answer).state
    for word, state in (("stopping", ProviderMachineState.STOPPED), ("melted", ProviderMachineState.UNKNOWN)):
        assert state is module.machine_from_ec2_instance({**answer, "State": {"Name": word}}).state


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        *((code, ProviderOutOfMachines) for code in sorted(module.NO_CAPACITY)),
        *((code, ProviderRequestRepeatable) for code in sorted(module.LATER)),
        ("UnauthorizedOperation", ProviderPermanentFailure),
        ("InvalidAMIID.NotFound", ProviderPermanentFailure),
        ("", ProviderPermanentFailure),
    ],
)
def test_an_error_code_is_later_or_no_capacity_or_a_failure(code: str, expected: type[Exception]) -> None:
    assert error_class_of_ec2_code(code) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("MaxSpotInstanceCountExceeded", ProviderOutOfMachines),
        ("Unavailable", ProviderRequestRepeatable),
        ("InvalidParameterValue", ProviderPermanentFailure),
    ],
)
def test_an_error_is_told_in_the_clouds_words(ec2: Ec2, gate: Gate, code: str, expected: type[Exception]) -> None:
    gate.refusals["RunInstances"] = code

    with pytest.raises(expected, match=f"^ec2 create: .*words of {code}$"):
        ec2().create("alpha-n7", TAGS)
    assert 1 == gate.seen["RunInstances"]


def test_a_cloud_that_does_not_answer_is_left_at_the_limit(ec2: Ec2, gate: Gate) -> None:
    """Once: a second try within the call would double the limit."""
    impatient = module.make_ec2_provider(replace(ec2().section, timeout_s=1), NodePoolSection(), "alpha")
    gate.hangs = True

    with pytest.raises(ProviderOutcomeUnknown, match="ec2 list: Read timeout"):
        impatient.machines()
    assert 1 == gate.seen["DescribeInstances"]


def test_a_cloud_that_is_not_reached_is_asked_later(ec2: Ec2, gate: Gate) -> None:
    provider = ec2()
    section = replace(provider.section, endpoint="http://127.0.0.1:9")
    unreachable = module.make_ec2_provider(section, NodePoolSection(), "alpha")

    with pytest.raises(ProviderOutcomeUnknown, match=r"ec2 list: Could not connect"):
        unreachable.machines()
    assert not gate.seen


def test_what_machines_are_to_read_has_to_be_there(ec2: Ec2) -> None:
    provider = ec2()
    section = replace(provider.section, user_data="/no/such")

    with pytest.raises(ProviderPermanentFailure, match=r"^/no/such: "):
        replace(provider, section=section).create("alpha-n7", TAGS)


def test_what_machines_obey_as_root_nobody_else_may_write(ec2: Ec2, tmp_path: Path) -> None:
    provider = ec2()
    (tmp_path / "begin").write_text("#cloud-config\n")
    (tmp_path / "begin").chmod(0o666)
    section = replace(provider.section, user_data=str(tmp_path / "begin"))

    with pytest.raises(ProviderPermanentFailure, match="others could have written"):
        replace(provider, section=section).create("alpha-n7", TAGS)
    assert () == provider.machines()


def test_a_place_that_is_none_is_told(ec2: Ec2) -> None:
    section = replace(ec2().section, endpoint="http://[/")

    with pytest.raises(ProviderPermanentFailure, match=r"^ec2: "):
        module.make_ec2_provider(section, NodePoolSection(), "alpha")
