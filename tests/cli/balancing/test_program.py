"""gridbridge-balance's options, and what it refuses before it looks at anything."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.balancing.program import balance

SITE = """
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 6444
execd_port = 6445
[balance]
{balance}
"""


def run(tmp_path: Path, *words: str, balance_keys: str = "") -> Result:
    """Run it with a configuration."""
    path = tmp_path / "gridbridge.toml"
    path.write_text(SITE.format(balance=balance_keys))
    return CliRunner().invoke(balance, ["--config", str(path), *words])


def test_help_has_an_example_and_both_forms_of_names() -> None:
    done = CliRunner().invoke(balance, ["--help"])

    assert 0 == done.exit_code
    for word in ("--max-nodes, --max_nodes", "--plot-output-dir, --plot_output_dir", "Example:"):
        assert word in done.output


@pytest.mark.parametrize(
    ("words", "keys", "line"),
    [
        (["beta"], "", "beta: [site] cluster is alpha"),
        (["-K"], "", "--kill-master: [balance] kill_master is not true"),
        (["--loop"], "", "--loop needs --apply, or apply = true in [balance]"),
        (["--interval", "1"], "", "Invalid value for '-i'"),
        (["--max-nodes", "many"], "", "'many' is not a valid integer"),
        (["--no-such"], "", "No such option"),
        (["--kill_cluster"], "", "--kill-master: [balance] kill_master is not true"),
    ],
    ids=["another cluster", "master", "loop", "interval", "number", "option", "old name"],
)
def test_wrong_words_are_usage(tmp_path: Path, words: list[str], keys: str, line: str) -> None:
    done = run(tmp_path, *words, balance_keys=keys)

    assert 2 == done.exit_code, done.output
    assert line in done.output


def test_without_a_maximum_it_refuses_to_act(tmp_path: Path) -> None:
    done = run(tmp_path, "--apply")

    assert "max_nodes is 0: nothing is added or removed" in str(done.exception)


def test_without_a_provider_it_refuses_to_act(tmp_path: Path) -> None:
    done = run(tmp_path, "--apply", "--max-nodes", "5")

    assert "no [pool.NAME] has a provider, and there is no [power.HOST]" in str(done.exception)
