"""`gridbridge squeeze` of the site's own cluster: output for a saved round, and errors."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.config.configuration_file import parse_configuration
from gridbridge.elastic.balancer import squeeze_preview
from tests.elastic.saved_rounds import save_round
from tests.elastic.site_text import ALPHA, RACK, powered_hosts

UP = {"up_since": "2126-01-01T11:00:00+00:00", "state": "ready"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_round(tmp_path, "idle.xml", nodes={"alpha-n1": UP, "alpha-n2": UP})


def run(folder: Path, more: str, *words: str) -> Result:
    """Run a squeeze of a saved round; `more` is added to the configuration."""
    path = folder / "gridbridge.toml"
    path.write_text(ALPHA + more)
    path.chmod(0o600)
    options = ("--from", str(folder), "--config", str(path))
    return CliRunner().invoke(gridbridge, ("squeeze", *options, *words))


def test_squeeze_prints_the_power_off_steps_of_a_host(folder: Path) -> None:
    done = run(folder, "[balance]\nmax_nodes = 5\n", "--json")

    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["off"], told["on"]) == (["alpha-n2"], [])
    assert told["deeds"] == [
        {"host": "alpha-n2", "do": "drain"},
        {"host": "alpha-n2", "do": "tag", "tag": "htools:standby:auto"},
        {"host": "alpha-n2", "do": "stop"},
    ]
    assert told["sentence"].endswith(": alpha-n2 can be powered off")


def test_without_max_nodes_the_sentence_names_the_missing_key(folder: Path) -> None:
    done = run(folder, "")

    right = ": max_nodes of [balance] is not set: no host is powered off or woken\n"
    assert done.stdout.endswith(right)


@pytest.mark.parametrize(
    ("more", "lacks"),
    [
        ("", ["[squeeze] enabled is false", "no host has a section [power.NAME]"]),
        ("[squeeze]\nenabled = true\n", ["no host has a section [power.NAME]"]),
        ("[squeeze]\nenabled = true\n" + powered_hosts("n1") + RACK, []),
    ],
    ids=["a fresh site", "no host with power", "both"],
)
def test_the_missing_settings_of_a_squeeze_are_listed(more: str, lacks: list[str]) -> None:
    found = squeeze_preview.missing_squeeze_settings(parse_configuration("FILE", (ALPHA + more).encode()))

    assert [lack.partition(":")[0] for lack in found] == lacks


@pytest.mark.parametrize(
    ("more", "words", "told"),
    [
        ("", ("--minimal-resources", "3"), "the minimal reserve is 3; expected at most the target (2)"),
        (
            "[squeeze]\nminimal_reserve = 4.0\n",
            (),
            "[squeeze] minimal_reserve: 4.0; expected at most target_reserve (2.0)",
        ),
    ],
)
def test_a_minimal_reserve_above_target_is_refused(more: str, words: tuple[str, ...], told: str, folder: Path) -> None:
    assert told in str(run(folder, more, *words).exception)
