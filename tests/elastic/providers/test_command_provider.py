"""The provider that calls a site's program accepts only complete and valid answers."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.elastic.providers import site_program_provider
from gridbridge.elastic.providers.site_program_provider import SiteProgramProvider
from gridbridge.errors import (
    ProviderOutcomeUnknown,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
)
from gridbridge.model.elastic.elastic_nodes import ProviderMachine, ProviderMachineState
from tests.builders.programs import write_program
from tests.elastic.providers.test_console_host_key import ED25519 as KEY

TAGS = {"gridbridge": "alpha", "gridbridge-pool": "small"}
NODE = {
    "id": "lab-1",
    "name": "alpha-n7",
    "address": "10.77.0.13",
    "state": "running",
    "tags": TAGS,
    "host_key": KEY,
    "created": "2026-05-04T09:00:00+00:00",
}
CREATED = datetime(2026, 5, 4, 9, tzinfo=UTC)
MACHINE = ProviderMachine(**NODE | {"state": ProviderMachineState.RUNNING, "created": CREATED})  # type: ignore[arg-type]

Make = Callable[..., SiteProgramProvider]


@pytest.fixture
def by(tmp_path: Path) -> Make:
    def make(script: str, timeout_s: float = 20) -> SiteProgramProvider:
        file = write_program(tmp_path / "program", f"#!/bin/sh\n{script}\n")
        env = {"PATH": "/usr/bin:/bin", "AT": str(tmp_path)}
        return SiteProgramProvider(program=str(file), timeout_s=timeout_s, env=env)

    return make


def saying(told: object) -> str:
    return f"cat <<'END'\n{told if isinstance(told, str) else json.dumps(told)}\nEND"


def test_a_machine_list_is_parsed(by: Make) -> None:
    strange = {**NODE, "id": "x", "name": "Bob's box", "tags": {}, "address": "fd00::7"}
    dark = {**NODE, "id": "y", "state": "frozen", "host_key": "", "address": "", "created": None}

    first, second, third = by(saying([NODE, strange, dark])).list_machines()

    assert MACHINE == first
    assert ("Bob's box", "fd00::7") == (second.name, second.address)
    assert not second.has_owner_tag_of_cluster("alpha")
    assert (ProviderMachineState.UNKNOWN, None, "") == (third.state, third.created, third.host_key)


def test_an_empty_machine_list_is_valid(by: Make) -> None:
    assert () == by(saying([])).list_machines()


def test_requests_are_written_to_standard_input(by: Make, tmp_path: Path) -> None:
    provider = by(f'cat >"$AT/$1"; {saying(NODE)}')

    made = provider.create_machine("alpha-n7", TAGS)
    provider.destroy_machine(made)

    assert MACHINE == made
    asked = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("[cds]*")}
    wish = {"name": "alpha-n7", "pool": "small", "tags": TAGS}
    assert {"create": wish, "destroy": {"id": "lab-1"}} == asked


WRONG = {
    "nothing": "",
    "half a document": json.dumps([NODE, NODE])[:-40],
    "two documents": "[][]",
    "no UTF-8": "[\udcff]",
    "no list": {"nodes": []},
    "a list of texts": ["alpha-n7"],
    "no name": [{key: value for key, value in NODE.items() if key != "name"}],
    "a number for an id": [{**NODE, "id": 7}],
    "an id with blanks": [{**NODE, "id": "lab 1"}],
    "an empty id": [{**NODE, "id": ""}],
    "one id twice": [NODE, {**NODE, "name": "alpha-n8"}],
    "a name with a line feed": [{**NODE, "name": "alpha-n7\n10.0.0.1 master"}],
    "a name with a blank": [{**NODE, "name": "alpha n7"}],
    "a name in capitals": [{**NODE, "name": "ALPHA-N7"}],
    "an option for a name": [{**NODE, "name": "-oProxyCommand=x"}],
    "a wildcard": [{**NODE, "name": "alpha-*"}],
    "an empty name": [{**NODE, "name": ""}],
    "another's name that is not printable": [{**NODE, "tags": {}, "name": "a\x1b[2J"}],
    "a name for an address": [{**NODE, "address": "alpha-n7"}],
    "an address with a scope": [{**NODE, "address": "fe80::1%eth0\nx"}],
    "no one host's address": [{**NODE, "address": "0.0.0.0"}],
    "everybody's address": [{**NODE, "address": "224.0.0.1"}],
    "a state that is no text": [{**NODE, "state": None}],
    "tags as a list": [{**NODE, "tags": ["gridbridge"]}],
    "a tag that is no text": [{**NODE, "tags": {"gridbridge": True}}],
    "a tag with a line feed": [{**NODE, "tags": {"gridbridge": "alpha\n"}}],
    "too many tags": [{**NODE, "tags": {str(number): "" for number in range(101)}}],
    "a host key with a line feed": [{**NODE, "host_key": f"{KEY}\n* {KEY}"}],
    "a host key with its host": [{**NODE, "host_key": f"alpha-n7 {KEY}"}],
    "a host key of another type": [{**NODE, "host_key": KEY.replace("ed25519", "rsa")}],
    "a host key that is none": [{**NODE, "host_key": "ssh-ed25519 AAAA"}],
    "a time without its zone": [{**NODE, "created": "2026-05-04T09:00:00"}],
    "no time": [{**NODE, "created": 5}],
    "before all years": [{**NODE, "created": "0001-01-01T00:00:00+14:00"}],
    "after all years": [{**NODE, "created": "9999-12-31T23:59:59-14:00"}],
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize("told", WRONG.values(), ids=WRONG)
def test_a_machine_list_with_any_error_is_refused_as_a_whole(by: Make, tmp_path: Path, told: object) -> None:
    text = (
        told
        if isinstance(told, str)
        else json.dumps([NODE | {"id": "good"}, *(told if isinstance(told, list) else ())])
    )
    text = json.dumps(told) if isinstance(told, dict) else text
    (tmp_path / "told").write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(ProviderPermanentFailure) as refused:
        by('cat "$AT/told"').list_machines()

    assert str(refused.value).startswith(f"{tmp_path}/program list: ")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        *(({**NODE, "name": "alpha-n8"}, r".*lab-1.*`.* destroy`"), ({**NODE, "tags": {}}, r".*lab-1.*`.* destroy`")),
        *(({**NODE, "id": 1}, ""), ([NODE], ""), ("", "")),
    ],
    ids=["another node", "without our tags", "a wrong type", "a list", "nothing"],
)
def test_an_answer_about_another_node_is_refused_with_its_id(by: Make, answer: object, advice: str) -> None:
    with pytest.raises(ProviderPermanentFailure, match=f"program create: {advice}"):
        by(saying(answer)).create_machine("alpha-n7", TAGS)


@pytest.mark.parametrize(
    ("ending", "expected", "words"),
    [
        ("exit 75", ProviderRequestRepeatable, "exit status 75"),
        ("echo one >&2; echo 'none before noon' >&2; exit 69", ProviderOutOfMachines, "none before noon"),
        ("echo 'wrong token' >&2; exit 77", ProviderPermanentFailure, "wrong token"),
        ("printf '\\033[2Jred' >&2; exit 1", ProviderPermanentFailure, "?[2Jred"),
        ("kill -9 $$", ProviderPermanentFailure, "exit status -9"),
        ("head -c 1000 /dev/zero | tr '\\0' x >&2; exit 1", ProviderPermanentFailure, 200 * "x"),
    ],
    ids=["later", "no capacity", "refused", "a steered terminal", "killed", "a long sentence"],
)
@pytest.mark.parametrize("method", ["create_machine", "destroy_machine", "list_machines"])
def test_the_exit_status_sets_the_error(
    by: Make, method: str, ending: str, expected: type[Exception], words: str
) -> None:
    provider = by(ending)
    given = {"create_machine": ("alpha-n7", TAGS), "list_machines": ()}.get(method, (MACHINE,))

    with pytest.raises(expected) as failed:
        getattr(provider, method)(*given)

    assert str(failed.value).endswith(f" {method.partition('_')[0]}: {words}")


def test_a_timeout_of_the_program_is_an_unknown_outcome(by: Make) -> None:
    with pytest.raises(ProviderOutcomeUnknown, match="no answer in time"):
        by("sleep 60", timeout_s=0.3).create_machine("alpha-n7", TAGS)


def test_a_program_that_prints_without_end_is_stopped(by: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_program_provider, "MOST_BYTES", 1 << 20)
    with pytest.raises(ProviderPermanentFailure, match="its output is larger than 1 MiB"):
        by("yes").list_machines()


def test_a_missing_program_is_a_permanent_failure() -> None:
    provider = SiteProgramProvider(program="/no/such", timeout_s=5, env={})

    with pytest.raises(ProviderPermanentFailure, match=r"^/no/such list: .*No such file"):
        provider.list_machines()
