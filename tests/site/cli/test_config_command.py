"""gridbridge config as administrators see the command."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridbridge.cli.main import gridbridge
from gridbridge.errors import ConfigError
from tests.builders.configurations import site_text


def run(path: Path, *words: str) -> str:
    done = CliRunner().invoke(gridbridge, ["config", "--config", str(path), *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "gridbridge.toml"
    path.write_text(f"{site_text('alpha')}[poller]\ninterval_s = 7\n")
    return path


def test_config_prints_what_differs_from_the_defaults(toml: Path) -> None:
    rows = [line.split() for line in run(toml).splitlines()]

    assert [row[0] for row in rows] == [
        *("KEY", "site.cluster", "cluster.alpha.qmaster_port", "cluster.alpha.execd_port", "poller.interval_s")
    ]
    assert rows[-1][:5] == ["poller.interval_s", "7.0", "5.0", "s", "the"]


def test_config_all_prints_every_key_and_names_missing_sections(toml: Path) -> None:
    rows = {line.split()[0]: line.split() for line in run(toml, "--all").splitlines()}

    assert rows["site.min_uid"][1:3] == ["1000", "1000"]
    assert rows["queue.NAME.slots"][1:4] == ["-", "required", "slots"]


def test_config_json_has_each_field(toml: Path) -> None:
    last = json.loads(run(toml, "--json"))[-1]

    texts = {key: last.pop(key) for key in ("allowed", "meaning")}
    assert last == {
        **{"section": "poller", "key": "interval_s", "value": 7.0, "default": 5.0, "unit": "s"},
        "is_default": False,
    }
    assert texts["allowed"] == "a number, 5 to 3600 s"


def test_config_reports_the_mistakes_of_the_file(toml: Path) -> None:
    toml.write_text(site_text("alpha").replace("= 1", "= -1"))

    with pytest.raises(ConfigError, match="qmaster_port = -1: out of range"):
        run(toml)
