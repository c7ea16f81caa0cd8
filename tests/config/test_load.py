"""A configuration is accepted as a whole or refused with its problems, an untrusted file with its remedy."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection
from tests.config.refusals import HOME, PORTS, SITE, problems_of

CLUSTERS = f"[cluster.alpha]\n{PORTS}[cluster.beta]\n{PORTS}"
QUEUE = '[queue.transfer-beta]\ncluster = "beta"\npending_limit = 2\nslots = 10\n'
GOOD = f"{HOME}[cluster.beta]\n{PORTS}{QUEUE}"
REFUSED = sorted((Path(__file__).parent / "refused").glob("*.toml"))
CONTINUED = re.compile(r"\n#  ")


def parsed(text: str) -> Policy:
    return configuration_file.parse_configuration("FILE", text.encode())


def test_missing_keys_have_their_defaults() -> None:
    assert parsed(GOOD) == Policy(
        site=SiteSection(cluster="alpha"),
        clusters={
            "alpha": ClusterSection(qmaster_port=6444, execd_port=6445),
            "beta": ClusterSection(qmaster_port=6444, execd_port=6445),
        },
        queues={"transfer-beta": TransferQueueSection(cluster="beta", pending_limit=2, slots=10)},
        poller=PollerSection(),
    )


@pytest.mark.parametrize(("home", "kind"), [('[cluster.alpha]\nkind = "oar"\n', ClusterKind.OAR), ("", None)])
def test_a_site_without_queues_may_have_a_home_of_oar_or_none(home: str, kind: ClusterKind | None) -> None:
    policy = parsed(f"{SITE}{home}[cluster.beta]\n{PORTS}")

    assert (policy.home_cluster_section.kind if policy.home_cluster_section else None) == kind
    assert policy.why_no_transfer_queues
    assert not policy.is_single_user_site


def test_remote_account_names_are_read_from_users() -> None:
    by_ssh = 'ssh = "far:2222"\n[cluster.beta.users]\nalice = "al"\n'
    beta = parsed(GOOD.replace(QUEUE, by_ssh + QUEUE)).clusters["beta"]

    assert (beta.ssh, beta.users) == ("far:2222", {"alice": "al"})


def test_a_whole_number_is_accepted_for_a_float_key() -> None:
    interval_s = parsed(GOOD + "[poller]\ninterval_s = 6\n").poller.interval_s

    assert (float, 6.0) == (type(interval_s), interval_s)


def expected_problems(text: str) -> Iterator[str]:
    """Yield the problems: `#: WHY` behind a wrong line, `#- WHY` behind a key, or a line `#: PROBLEM`."""
    section = ""
    for line in CONTINUED.sub(" ", text).splitlines():
        wrong, mark, why = re.fullmatch(r"(.*?)(?: *#([:-]) (.*))?", line).groups()  # type: ignore[union-attr]
        if wrong.startswith("["):
            section = wrong
        subject = wrong.partition(" = ")[0] if mark == "-" else wrong
        if mark:
            yield why if not wrong else f"{section}: {why}" if wrong == section else f"{section} {subject}: {why}"


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_each_wrong_line_of_a_configuration_is_reported_with_its_remedy(path: Path) -> None:
    text = path.read_text()

    assert sorted(problems_of(text)) == sorted(expected_problems(text))


def test_problems_are_reported_in_the_order_of_the_sections_and_unknown_keys_first() -> None:
    text = f"{SITE}min_uid = 0\n{CLUSTERS}{QUEUE.replace('slots', 'slot').replace('beta', 'gamma')}stagd = 5\n[poler]\n"

    assert [problem.partition(":")[0] for problem in problems_of(text)] == [
        "[site] min_uid = 0",
        "[queue.transfer-gamma] slot",
        "[queue.transfer-gamma] stagd",
        "[poler]",
        '[queue.transfer-gamma] cluster = "gamma"',
    ]


IMPOSSIBLE = Path(__file__).with_name("impossible_elastic_values.txt").read_text().splitlines()


@pytest.mark.parametrize("line", IMPOSSIBLE)
def test_an_impossible_elastic_value_is_refused_with_its_key(line: str) -> None:
    section, _, value = line.partition(" ")

    (problem,) = problems_of(f"{HOME}{section}\n{value}\n")
    assert problem.startswith(line.partition(" = ")[0])


@pytest.mark.parametrize("schedule", ["", "0-24 0-0", "0-24 2-2", "mon-fri 8-20 2-10, 0-24 0-5"])
def test_a_valid_schedule_is_accepted(schedule: str) -> None:
    text = f'{HOME}[demand]\nschedule = "{schedule}"\n'

    assert configuration_file.parse_configuration("FILE", text.encode()).demand.schedule == schedule


COPY = "copy of /opt/gridbridge/conf/gridbridge.toml"


def problems_of_file(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        configuration_file.load_configuration(str(path))
    return [problem.replace(f"{path.parent}/", "") for problem in refusal.value.problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    good = tmp_path / "grid.toml"
    good.write_text(HOME)
    good.chmod(0o644)
    return good


SECOND = "move its keys to the first section"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[site]\ncluster = alpha\n", "Invalid value (at line 2, column 11)"),
        (b"[site]\n[site]\n", f"a second section [site] (at line 2, column 6): {SECOND}"),
        (b"[pool.a]\n[pool.a]\n", f"a second section [pool.a] (at line 2, column 8): {SECOND}"),
        (b"[site]\ncluster =", "Invalid value (at line 2, the end)"),
        (b"[site]\n# caf\xe9\n", "invalid continuation byte (at line 2)"),
    ],
    ids=["a text without quotes", "a section twice", "one of a pool twice", "a cut file", "not UTF-8"],
)
def test_a_toml_error_is_reported_with_its_line(path: Path, content: bytes, expected: str) -> None:
    path.write_bytes(content)
    assert [f"grid.toml: {expected}; TOML 1.0 in UTF-8"] == problems_of_file(path)

    path.write_text("[site]\ncluster = " + "[" * 5000)
    deep = "values are nested too deeply; expected at most a table of texts as a value"
    assert [f"grid.toml: {deep}"] == problems_of_file(path)


def test_a_file_named_by_the_user_gets_a_short_error(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "fifo.toml")

    assert problems_of_file(tmp_path / "none.toml") == ["none.toml: No such file or directory"]
    assert problems_of_file(tmp_path / "folder.toml") == ["folder.toml: Is a directory"]
    assert problems_of_file(tmp_path / "fifo.toml") == ["fifo.toml: not a regular file"]


WHERE = "run this on the transfer host, where the service is"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda _: None, f"No such file or directory; {WHERE}; on a new host run gridbridge init"),
        (os.mkdir, f"Is a directory; expected a readable {COPY}"),
        (os.mkfifo, f"not a regular file; expected a {COPY}"),  # opening it would block the program that root runs
    ],
    ids=["missing", "a folder", "a FIFO"],
)
def test_an_unreadable_default_file_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], problem: str
) -> None:
    path = tmp_path / "grid.toml"
    monkeypatch.setattr(configuration_file, "CONFIG", str(path))
    make(path)

    assert [f"grid.toml: {problem}"] == problems_of_file(path)


def test_a_huge_file_is_refused_before_reading(path: Path) -> None:
    """A sparse file of 1 TiB costs its owner nothing."""
    os.truncate(path, 1 << 40)

    with pytest.raises(ConfigError, match="too long; at most 1048576 bytes are read"):
        configuration_file.load_configuration(str(path))


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to run as root; file owners are unchanged."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root")
def test_root_refuses_a_file_that_others_may_write_or_replace(path: Path) -> None:
    path.chmod(0o666)
    (file,) = problems_of_file(path)
    path.chmod(0o644)
    path.parent.chmod(0o777)
    (folder,) = problems_of_file(path)

    assert "others could have written grid.toml: grid.toml has mode 0666. Check the file, " in file
    assert file.endswith("then run: chmod go-w grid.toml")
    assert f"others could have written grid.toml: {path.parent} has mode 0777" in folder
    assert f"chmod go-w {path.parent}" in folder


@pytest.mark.root
def test_root_reads_its_own_file(path: Path) -> None:
    assert configuration_file.load_configuration(str(path)).site.cluster == "alpha"


@pytest.mark.root
def test_root_refuses_a_file_of_another_owner(path: Path) -> None:
    os.chown(path, 1, 1)

    expected = "others could have written grid.toml: grid.toml belongs to daemon"
    mend = "Check the file, then run: chown root grid.toml"
    assert [f"{expected}. {mend}"] == problems_of_file(path)


def test_other_users_accept_any_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    path.chmod(0o666)

    assert configuration_file.load_configuration(str(path)).site.cluster == "alpha"


@pytest.mark.usefixtures("as_root")
def test_an_untrusted_file_is_not_parsed(path: Path) -> None:
    path.write_text("not TOML")
    path.chmod(0o666)

    assert len(problems_of_file(path)) == 1
