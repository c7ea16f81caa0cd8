"""The provider that calls a site's program, also the documented one, accepts only complete and valid answers."""

import json
import re
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.config import configuration_file
from gridbridge.elastic.providers import site_program_provider
from gridbridge.elastic.providers.provider_protocol_and_validation import (
    find_console_host_key,
    parse_provider_machine_list,
)
from gridbridge.elastic.providers.site_program_provider import SiteProgramProvider
from gridbridge.errors import (
    ParseError,
    ProviderOutcomeUnknown,
    ProviderOutOfMachines,
    ProviderPermanentFailure,
    ProviderRequestRepeatable,
)
from gridbridge.model.elastic.elastic_nodes import ProviderMachine, ProviderMachineState
from tests.builders.programs import write_program

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEV1aZ0WJkmP6xhNJQmY0v5jWJ8dJ1l1kYx3hR2oNw8K"
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7"
    "opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="
)
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----", "-----END SSH HOST KEY KEYS-----"
PRINTED = f"""\
[    0.000000] Linux version 6.1.0-18-cloud-amd64
<14>May  4 09:00:11 cloud-init: #############################################################
{BEGIN}\r
{ECDSA} root@ip-10-0-4-17\r
{ED25519} root@ip-10-0-4-17\r
{END}\r
[   14.204112] cloud-init[612]: Cloud-init v. 22.4.2 finished

Debian GNU/Linux 12 ip-10-0-4-17 ttyS0

ip-10-0-4-17 login:
"""
TAGS = {"gridbridge": "alpha", "gridbridge-pool": "small"}
NODE = {
    "id": "lab-1",
    "name": "alpha-n7",
    "address": "10.77.0.13",
    "state": "running",
    "tags": TAGS,
    "host_key": ED25519,
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
    "a host key with a line feed": [{**NODE, "host_key": f"{ED25519}\n* {ED25519}"}],
    "a host key with its host": [{**NODE, "host_key": f"alpha-n7 {ED25519}"}],
    "a host key of another type": [{**NODE, "host_key": ED25519.replace("ed25519", "rsa")}],
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


def test_a_program_that_never_ends_or_is_missing_is_a_failure(by: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_program_provider, "MOST_BYTES", 1 << 20)
    with pytest.raises(ProviderOutcomeUnknown, match="no answer in time"):
        by("sleep 60", timeout_s=0.3).create_machine("alpha-n7", TAGS)
    with pytest.raises(ProviderPermanentFailure, match="its output is larger than 1 MiB"):
        by("yes").list_machines()
    with pytest.raises(ProviderPermanentFailure, match=r"^/no/such list: .*No such file"):
        SiteProgramProvider(program="/no/such", timeout_s=5, env={}).list_machines()


NODES: list[dict[str, Any]] = [
    {**NODE, "id": f"r-{n}", "name": f"alpha-n{n}", "address": f"10.0.0.{n}"} for n in (1, 2)
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def read(raw: bytes) -> tuple[tuple[ProviderMachine, ...], str]:
    try:
        return parse_provider_machine_list(raw), ""
    except ParseError as error:
        return (), str(error)


def test_a_truncated_machine_list_is_refused() -> None:
    raw = json.dumps(NODES).encode()
    assert 2 == len(parse_provider_machine_list(raw))

    for end in range(len(raw)):
        with pytest.raises(ParseError):
            parse_provider_machine_list(raw[:end])


@given(st.sampled_from(sorted(NODES[0])), JSON)
def test_any_value_of_any_key_is_valid_or_refused(key: str, value: Any) -> None:
    """No accepted text can add a line to a file."""
    nodes = [{**NODES[0], key: value}, NODES[1]]

    found, why = read(json.dumps(nodes).encode())

    assert len(found) == (0 if why else 2)
    assert why.isprintable()
    for one in found:
        texts = (one.id, one.name, one.address, one.host_key, *one.tags, *one.tags.values())
        assert all(text.isprintable() for text in texts)


@pytest.mark.parametrize("tags", [{"purpose": "a\tb"}, {"long": "x" * 1025}, {"gridbridge": "beta\n"}])
def test_unusual_names_and_tags_of_machines_of_others_do_not_refuse_the_list(tags: dict[str, str]) -> None:
    theirs = {**NODES[1], "name": "web\n1", "tags": tags, "host_key": "?"}

    ours, found = parse_provider_machine_list(json.dumps([NODES[0], theirs]).encode(), "alpha")

    assert (True, False) == (ours.has_owner_tag_of_cluster("alpha"), found.has_owner_tag_of_cluster("alpha"))
    assert "web?1" == found.name
    assert all(one.isprintable() and len(one) <= 1024 for one in found.tags.values())


@pytest.mark.parametrize("wrong", [{"name": "web\n1"}, {"tags": {"gridbridge": "alpha", "a": "\t"}}])
def test_own_machines_must_have_valid_names_and_tags(wrong: dict[str, object]) -> None:
    with pytest.raises(ParseError):
        parse_provider_machine_list(json.dumps([{**NODES[0], **wrong}]).encode(), "alpha")


@given(st.binary())
def test_any_bytes_are_refused_or_an_empty_list(raw: bytes) -> None:
    found, why = read(raw)

    assert () == found
    assert why or b"[]" == b"".join(raw.split())


DOCS = Path(__file__).parents[3] / "docs" / "how-to"
PAGES = [(DOCS / name).read_text() for name in ("providers.md", "squeeze.md")]
SITE = '[site]\ncluster = "alpha"\n'


@pytest.fixture
def shown(tmp_path: Path) -> SiteProgramProvider:
    (script,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```$", PAGES[0], re.MULTILINE | re.DOTALL)
    program = write_program(tmp_path / "rent-node", script)
    (tmp_path / "nodes").mkdir()
    env = {"PATH": "/usr/bin:/bin", "NODES": str(tmp_path / "nodes")}
    return SiteProgramProvider(program=str(program), timeout_s=20, env=env)


def test_the_documented_program_creates_lists_and_destroys_nodes(shown: SiteProgramProvider) -> None:
    tags = {"gridbridge": "alpha", "gridbridge-pool": "rented"}
    none = shown.list_machines()
    first, second = (shown.create_machine(f"alpha-n{number}", tags) for number in (7, 8))
    shown.destroy_machine(first)
    shown.destroy_machine(first)

    assert () == none
    assert (second,) == shown.list_machines()
    assert (ProviderMachineState.PENDING, "rented") == (second.state, second.pool)


def test_the_documented_program_has_four_nodes(shown: SiteProgramProvider) -> None:
    for number in range(4):
        shown.create_machine(f"alpha-n{number}", {})

    with pytest.raises(ProviderOutOfMachines, match=r"create: all four are rented$"):
        shown.create_machine("alpha-n4", {})


def test_the_documented_sections_are_a_valid_configuration() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", "".join(PAGES), re.MULTILINE | re.DOTALL)
    assert blocks

    for block in blocks:
        assert configuration_file.parse_configuration("FILE", (SITE + block).encode()).providers
        assert tomllib.loads(block)["provider"]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (PRINTED, ED25519),
        (PRINTED.replace(ED25519, "ssh-rsa AAAA"), ECDSA),
        (f"{PRINTED}{PRINTED.replace(ED25519, OTHER)}", OTHER),
        (f"[  11.2] cloud-init[612]: {BEGIN}\n[  11.2] cloud-init[612]: {ED25519}\n{END}", ED25519),
        (f"\x1b[0;32m{BEGIN}\n\x1b[0m{ED25519} x\n{END}", ED25519),
        ("", ""),
        (ED25519, ""),
        (PRINTED.replace(END, ""), ""),
        (f"{BEGIN}\n{ED25519[:-12]}", ""),
        (f"{BEGIN}\nssh-ed25519 AAAA\n{END}", ""),
        (f"{BEGIN}\nssh-ed25519\n\n{END}", ""),
        (f"{END}\n{ED25519}\n{BEGIN}", ""),
    ],
    ids=[
        *("the best of several", "the next best", "that of the last boot", "behind a log's times", "in colours"),
        *("nothing", "a key that stands alone", "without its end", "cut off", "no key", "half a key"),
        "the wrong way round",
    ],
)
def test_a_host_key_is_found_only_between_the_marks_of_cloud_init(printed: str, expected: str) -> None:
    assert expected == find_console_host_key(printed)
