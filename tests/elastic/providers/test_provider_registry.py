"""The choice of a pool's provider by gridbridge.toml, and secrets: no message contains them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.elastic.providers import site_program_provider
from gridbridge.elastic.providers import site_program_provider as programs
from gridbridge.elastic.providers.provider_protocol_and_validation import MachineLister
from gridbridge.elastic.providers.provider_registry import (
    make_machine_providers_by_pool,
    make_power_controls_by_provider,
    make_provider_of_pool,
)
from gridbridge.elastic.providers.site_program_provider import SiteProgramProvider
from gridbridge.errors import FileWritableByOthers, ProviderPermanentFailure
from gridbridge.model.elastic.balancer_config_sections import (
    HostPowerSection,
    MachineProviderSection,
    NodePoolSection,
    PowerSwitchMethod,
    ProviderKind,
)
from gridbridge.shell.optional_libraries import missing_library_message
from tests.builders.campaigns import made_policy
from tests.builders.programs import write_program

SECTION = MachineProviderSection(program="/opt/rent", timeout_s=7)
POOLS = {"small": NodePoolSection(provider="rental"), "other": NodePoolSection()}
POLICY = made_policy(pools=POOLS, providers={"rental": SECTION})


def test_a_provider_program_gets_the_timeout_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_FILE", "/etc/token")

    provider = make_provider_of_pool(POLICY, "small")

    assert isinstance(provider, SiteProgramProvider)
    assert (provider.program, provider.timeout_s) == ("/opt/rent", 7)
    assert (provider.env["TOKEN_FILE"], provider.env["LC_ALL"]) == ("/etc/token", "C")


def test_a_provider_program_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    """Control over the creation of machines amounts to root access on the machines."""
    program = tmp_path / "rent"
    program.write_text("#!/bin/sh\n")
    section = replace(SECTION, program=str(program))
    policy = replace(POLICY, providers={"rental": section})
    make_provider_of_pool(policy, "small")
    program.chmod(0o775)

    with pytest.raises(ProviderPermanentFailure, match=f"others could have written {program}: .*chmod"):
        make_provider_of_pool(policy, "small")


ADMIN, PERSON = 990, 5000


@pytest.mark.parametrize("owner", [ADMIN, PERSON])
def test_a_user_trusts_programs_of_the_balancer_and_own_programs(owner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _as_person(monkeypatch, owner)

    assert isinstance(make_provider_of_pool(POLICY, "small"), SiteProgramProvider)


def test_a_user_gets_no_advice_to_change_files_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    _as_person(monkeypatch, owner=666)

    with pytest.raises(ProviderPermanentFailure) as told:
        make_provider_of_pool(POLICY, "small")

    assert str(told.value) == "others could have written /opt/rent: it is not right"


def _as_person(monkeypatch: pytest.MonkeyPatch, owner: int) -> None:
    def require(path: str, owner_wanted: int) -> None:
        if owner_wanted != owner:
            raise FileWritableByOthers(path, "it is not right", f"chown root {path}")

    monkeypatch.setattr(programs.os, "geteuid", lambda: PERSON)
    monkeypatch.setattr(programs.local_host_facts, "uid_of_account", lambda _: ADMIN)
    monkeypatch.setattr(programs.safe_files, "require_trusted_path", lambda path, *, owner: require(path, owner))


@pytest.mark.parametrize(
    ("pool", "kind", "why"),
    [
        ("other", ProviderKind.COMMAND, r"pool other: no provider; .*\[pool.other\]"),
        ("unknown", ProviderKind.COMMAND, r"pool unknown: no provider; .*\[pool.unknown\]"),
        ("small", ProviderKind.POWER, r"\[provider.rental\] kind = power: this kind creates no"),
    ],
)
def test_a_pool_without_a_provider_of_machines_is_refused(pool: str, kind: ProviderKind, why: str) -> None:
    with pytest.raises(ProviderPermanentFailure, match=why):
        make_provider_of_pool(replace(POLICY, providers={"rental": replace(SECTION, kind=kind)}), pool)


def test_a_provider_that_cannot_be_set_up_does_not_affect_other_providers(tmp_path: Path) -> None:
    program = write_program(tmp_path / "rent", "#!/bin/sh\necho '[]'\n")
    switch = tmp_path / "switch"
    switch.touch()
    switch.chmod(0o775)
    policy = replace(
        POLICY,
        pools={"small": NodePoolSection(provider="rental"), "large": NodePoolSection(provider="nobody")},
        providers={
            "rental": replace(SECTION, program=str(program)),
            "rack": MachineProviderSection(kind=ProviderKind.POWER, way=PowerSwitchMethod.COMMAND, program=str(switch)),
        },
        powered={"n1": HostPowerSection(provider="rack")},
    )

    found: dict[str, MachineLister] = {
        **make_machine_providers_by_pool(policy),
        **make_power_controls_by_provider(policy, {"rack"}),
    }

    assert ["large", "rack", "small"] == sorted(found)
    assert () == found["small"].list_machines()
    for name, why in (("large", "no provider; expected a key"), ("rack", "others could have written")):
        with pytest.raises(ProviderPermanentFailure, match=why):
            found[name].list_machines()


@pytest.mark.parametrize(("kind", "library"), [("ec2", "boto3"), ("libcloud", "libcloud")])
def test_a_missing_library_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, kind: str, library: str
) -> None:
    for module in ("boto3", "libcloud.compute.providers"):
        monkeypatch.setitem(sys.modules, module, None)
    section = MachineProviderSection(kind=ProviderKind(kind), region="x", driver="openstack")

    with pytest.raises(ProviderPermanentFailure) as told:
        make_provider_of_pool(replace(POLICY, providers={"rental": section}), "small")

    assert str(told.value) == missing_library_message(library)


def test_no_cloud_library_is_imported_before_use() -> None:
    script = (
        "import sys, gridbridge.elastic.providers.provider_registry;"
        "print({'boto3', 'botocore', 'libcloud'} & set(sys.modules))"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)

    assert "set()\n" == ran.stdout


SECRET = "hush%(x)s"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.touch(mode=0o600)
    file.write_text(f"# ours\n[default]\nkey = me\nSecret = {SECRET}\n")
    return file


def test_a_private_credentials_file_is_read(path: Path) -> None:
    assert {"key": "me", "Secret": SECRET} == site_program_provider.read_private_credentials(str(path))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_credentials_file_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)

    with pytest.raises(ProviderPermanentFailure, match=f"^{path}: .*chmod") as refused:
        site_program_provider.read_private_credentials(str(path))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"key = {SECRET}\n", "lines NAME = VALUE below a line .default."),
        (f"[default]\n{SECRET}\n", "lines NAME = VALUE below a line .default."),
        (f"[default]\nkey = a\nkey = {SECRET}\n", "lines NAME = VALUE below a line .default."),
        (f"[other]\nkey = {SECRET}\n", "lines NAME = VALUE below a line .default."),
        ("\udcff", "no UTF-8"),
        ("x" * 70_000, "larger than 65536 bytes"),
    ],
    ids=["no section", "no value", "a name twice", "another section", "no text", "too long"],
)
def test_the_error_about_an_invalid_credentials_file_contains_no_secret(path: Path, content: str, words: str) -> None:
    path.write_bytes(content.encode(errors="surrogateescape"))

    with pytest.raises(ProviderPermanentFailure, match=f"^{path}: .*{words}") as refused:
        site_program_provider.read_private_credentials(str(path))
    assert SECRET not in str(refused.value)


def test_links_folders_and_missing_files_are_refused_as_secrets(path: Path) -> None:
    link, missing = path.with_name("link"), path.with_name("missing")
    link.symlink_to(path)

    for wrong in (link, path.parent, missing):
        with pytest.raises(ProviderPermanentFailure, match=f"^{wrong}: "):
            site_program_provider.read_secret_file(str(wrong))


@pytest.mark.root
def test_a_secret_file_of_another_owner_is_refused(path: Path) -> None:
    os.chown(path, 1, 1)

    with pytest.raises(ProviderPermanentFailure, match="owned by uid 1, not 0"):
        site_program_provider.read_secret_file(str(path))
