"""The provider that powers the site's own hosts on and off, with real controllers and programs."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.elastic.providers.host_power_provider import HostPowerProvider, IpmiPowerSwitch
from gridbridge.elastic.providers.provider_registry import make_power_control_of_host
from gridbridge.errors import ProviderOutcomeUnknown, ProviderPermanentFailure
from gridbridge.model.elastic.elastic_nodes import ProviderMachine, ProviderMachineState
from tests.builders.programs import write_program
from tests.elastic.providers import ipmi
from tests.elastic.providers.ipmi import Tools

SITE = '[site]\ncluster = "alpha"\n'
MAC = "52:54:00:12:34:56"
USER, PASSWORD = "grid", "hush"

Ipmi = Callable[..., HostPowerProvider]


def provider_of(text: str, host: str = "n1") -> HostPowerProvider:
    made = make_power_control_of_host(configuration_file.parse_configuration("FILE", (SITE + text).encode()), host)
    assert isinstance(made, HostPowerProvider)
    return made


def states(provider: HostPowerProvider) -> dict[str, ProviderMachineState]:
    return {one.name: one.state for one in provider.list_machines()}


def named(name: str) -> ProviderMachine:
    return ProviderMachine(id=name, name=name, state=ProviderMachineState.UNKNOWN)


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    try:
        return ipmi.found(tmp_path_factory.mktemp("ipmi"))
    except (AssertionError, subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"no Debian packages {', '.join(ipmi.PACKAGES)}: {error}")


@pytest.fixture
def controller(tools: Tools, tmp_path: Path) -> Iterator[str]:
    with ipmi.controller(tools, tmp_path, USER, PASSWORD) as port:
        yield f"{ipmi.HERE}:{port}"


@pytest.fixture
def by_ipmi(tools: Tools, tmp_path: Path) -> Ipmi:
    def make(*controllers: str, password: str = PASSWORD, timeout_s: float = 20) -> HostPowerProvider:
        secret = tmp_path / "password"
        secret.touch(mode=0o600)
        secret.write_text(f"{password}\n")
        text = f'[provider.bmc]\nkind = "power"\ntimeout_s = {timeout_s}\n'
        for number, bmc in enumerate(controllers, start=1):
            text += f'[power.n{number}]\nprovider = "bmc"\nbmc = "{bmc}"\nuser = "{USER}"\n'
            text += f'password_file = "{secret}"\n'
        made, switches = provider_of(text), dict[str, IpmiPowerSwitch]()
        for name, one in made.switches.items():
            assert isinstance(one, IpmiPowerSwitch)
            assert one.tool == "/usr/bin/ipmitool"
            switches[name] = replace(one, tool=tools.write(tmp_path / "ipmitool"))
        return replace(made, switches=switches)

    return make


def test_a_host_is_powered_by_its_controller_and_repeating_a_request_is_no_error(
    by_ipmi: Ipmi, controller: str, tmp_path: Path
) -> None:
    """A power-off lets the operating system shut down."""
    provider = by_ipmi(controller)
    seen = [states(provider)]
    for act in (provider.power_on_host, provider.power_on_host, provider.power_off_host, provider.power_off_host):
        act(named("n1"))
        seen.append(states(provider))

    on, off = {"n1": ProviderMachineState.RUNNING}, {"n1": ProviderMachineState.STOPPED}
    assert [off, on, on, off, off] == seen
    asked = (tmp_path / "asked").read_text().splitlines()
    assert ["set power 1", "set power 1", "set shutdown 1", "set shutdown 1"] == [
        line for line in asked if line.startswith("set")
    ]


def test_a_host_without_an_answer_is_in_an_unknown_state(by_ipmi: Ipmi, controller: str) -> None:
    provider = by_ipmi(controller, "127.0.0.1:9", timeout_s=2)

    assert {"n1": ProviderMachineState.STOPPED, "n2": ProviderMachineState.UNKNOWN} == states(provider)
    with pytest.raises(ProviderOutcomeUnknown, match="chassis power on: no answer in time"):
        provider.power_on_host(named("n2"))


def test_the_error_about_a_wrong_password_does_not_contain_the_password(by_ipmi: Ipmi, controller: str) -> None:
    provider = by_ipmi(controller, password="wrong-one")

    with pytest.raises(ProviderOutcomeUnknown, match="Unable to establish IPMI") as refused:
        provider.power_on_host(named("n1"))
    assert "wrong-one" not in str(refused.value)
    assert {"n1": ProviderMachineState.UNKNOWN} == states(provider)


def test_a_password_file_that_others_can_read_is_not_used(by_ipmi: Ipmi, controller: str, tmp_path: Path) -> None:
    provider = by_ipmi(controller)
    (tmp_path / "password").chmod(0o644)

    with pytest.raises(ProviderPermanentFailure, match=r"readable by others; run chmod 600 /"):
        provider.power_on_host(named("n1"))
    assert not (tmp_path / "asked").exists()


@pytest.fixture
def switch(tmp_path: Path) -> str:
    lines = ("#!/bin/sh", f"cd {tmp_path}", '[ "$2" != dark ] || exit 1', 'case "$1" in')
    cases = ("on) echo on >$2 ;;", "off) echo off >$2 ;;", "status) cat $2 ;;", "esac")
    return str(write_program(tmp_path / "switch", "\n".join((*lines, *cases, ""))))


def by_program(switch: str) -> HostPowerProvider:
    hosts = "".join(f'[power.{name}]\nprovider = "any"\n' for name in ("n1", "n2", "dark"))
    way = f'[provider.any]\nkind = "power"\nway = "command"\nprogram = "{switch}"\n'
    return provider_of(way + hosts)


def test_hosts_are_powered_by_a_program(switch: str) -> None:
    provider = by_program(switch)
    provider.power_on_host(named("n1"))
    provider.power_off_host(named("n2"))

    assert {
        "n1": ProviderMachineState.RUNNING,
        "n2": ProviderMachineState.STOPPED,
        "dark": ProviderMachineState.UNKNOWN,
    } == states(provider)
    assert all(one.has_owner_tag_of_cluster("alpha") for one in provider.list_machines())
    with pytest.raises(ProviderPermanentFailure, match="switch on dark: exit status 1"):
        provider.power_on_host(named("dark"))


def test_the_cause_of_an_unknown_state_is_logged(switch: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "n1").write_text("ON\n")
    (tmp_path / "n2").write_text("on\n")

    assert ProviderMachineState.UNKNOWN is states(by_program(switch))["n1"]
    told = sorted(one.getMessage() for one in caplog.records)
    why = "\"the host's state is 'ON'; expected on or off\""
    assert told[0].startswith("event=no_state host=dark why=")
    assert told[1:] == [f"event=no_state host=n1 why={why}"]


def woken(port: int, more: str = "") -> HostPowerProvider:
    way = f'[provider.lan]\nkind = "power"\nway = "wake"\nbroadcast = "127.0.0.1:{port}"\n'
    return provider_of(f'{way}{more}[power.n1]\nprovider = "lan"\nmac = "{MAC}"\n')


def test_a_host_is_woken_by_a_network_packet() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 0))
        heard.settimeout(20)
        provider = woken(heard.getsockname()[1])
        provider.power_on_host(named("n1"))

        packet = heard.recv(1000)

    assert 102 == len(packet)
    assert b"\xff" * 6 + 16 * b"\x52\x54\x00\x12\x34\x56" == packet
    assert {"n1": ProviderMachineState.UNKNOWN} == states(provider)
    with pytest.raises(
        ProviderPermanentFailure,
        match="a network packet can only wake; expected a key `program` in the provider's section",
    ):
        provider.power_off_host(named("n1"))


def test_a_host_woken_by_packets_is_powered_off_by_a_program(switch: str) -> None:
    provider = woken(9, f'program = "{switch}"\n')

    provider.power_off_host(named("n1"))

    assert {"n1": ProviderMachineState.STOPPED} == states(provider)


def test_a_packet_that_cannot_be_sent_is_an_unknown_outcome() -> None:
    with pytest.raises(ProviderOutcomeUnknown, match=r"^power start n1: 127.0.0.1:99999: "):
        woken(99999).power_on_host(named("n1"))


def test_a_host_of_another_provider_is_refused() -> None:
    provider = woken(9)

    with pytest.raises(ProviderPermanentFailure, match=r"^power start n2: the provider has no such host"):
        provider.power_on_host(named("n2"))


def test_a_host_without_a_provider_is_refused() -> None:
    with pytest.raises(ProviderPermanentFailure, match=r"^host n9: no power provider; expected a section \[power.n9\]"):
        provider_of("", "n9")
