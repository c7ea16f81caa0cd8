"""`gridbridge balance plot` draws six pictures from a statistics file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from matplotlib import image

from gridbridge.cli.main import gridbridge
from gridbridge.elastic.cli import balance_plan_and_plot
from gridbridge.elastic.cli.balance_and_replay_plots import format_duration
from gridbridge.errors import GridbridgeError, ParseError, StandardOutputUnwritable, StateError
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_PLOTS

NAMES = ("queued", "running", "num_hosts", "avg_duration", "avg_wait", "avg_load")
BEGIN = datetime(2026, 3, 1, 8, tzinfo=UTC)


def row(minutes: int) -> str:
    at = BEGIN + timedelta(minutes=minutes)
    return f"{at.isoformat()},{2 + minutes % 4},{minutes},{60 - minutes},8,{minutes * 90},7,1.5\n"


def plot(stats: Path, folder: Path) -> Result:
    words = ("balance", "plot", "--stats", str(stats), "--output-dir", str(folder))
    return CliRunner().invoke(gridbridge, words)


@pytest.mark.parametrize("minutes", [(5,), range(60)], ids=["one row", "an hour"])
def test_each_picture_has_content(tmp_path: Path, minutes: range | tuple[int, ...]) -> None:
    (tmp_path / "stats.csv").write_text("".join(map(row, minutes)))
    done = plot(tmp_path / "stats.csv", tmp_path / "a" / "b")

    assert done.output.splitlines() == [f"{tmp_path}/a/b/{name}.png" for name in NAMES]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == sorted(f"{name}.png" for name in NAMES)
    least = 0.05 if len(minutes) > 1 else 0.00001
    for name in NAMES:
        pixels = image.imread(tmp_path / "a" / "b" / f"{name}.png")[:, :, :3]
        assert (pixels.max(axis=2) - pixels.min(axis=2) > 0.02).mean() > least, name


def test_times_of_starcluster_without_a_zone_are_read(tmp_path: Path) -> None:
    old = "2026-03-01 08:00:00.123456,2,1,3,8,60,7,0.5\n"
    (tmp_path / "stats.csv").write_text(old + row(1))

    assert plot(tmp_path / "stats.csv", tmp_path).exit_code == 0


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-01T12:00:00+00:00,3,4,24,6,2700,45,nan\n",
        "2026-03-01T12:00:00+00:00,3,4,24,6,2700,45,inf\n",
        "2026-03-01T12:00:00+00:00,3,4,24,6,2700,1e300,1\n",
        f"2026-03-01T12:00:00+00:00,1{'0' * 400},4,24,6,2700,45,1\n",
        "0001-01-01T00:00:00+14:00,3,4,24,6,2700,45,1\n",
        "9999-12-31T23:59:59-14:00,3,4,24,6,2700,45,1\n",
    ],
    ids=["nan", "inf", "too large", "400 digits", "the first day", "the last day"],
)
def test_rows_with_numbers_that_cannot_be_drawn_are_invalid(tmp_path: Path, line: str) -> None:
    (tmp_path / "stats.csv").write_text(line + row(2))
    done = plot(tmp_path / "stats.csv", tmp_path)

    assert done.exit_code == 0
    assert "stats.csv: 1 line is invalid; the first is line 1\n" in done.stderr


def test_invalid_lines_are_reported_and_skipped(tmp_path: Path) -> None:
    (tmp_path / "stats.csv").write_text(f"{row(1)}2026-03-01,7\n{row(2)}\n,,,,,,,\n")
    done = plot(tmp_path / "stats.csv", tmp_path)

    assert done.exit_code == 0
    assert done.stderr == (f"gridbridge: {tmp_path}/stats.csv: 2 lines are invalid; the first is line 2\n")


@pytest.mark.parametrize(
    ("content", "kind", "right"),
    [
        (None, StateError, "No such file or directory; each round of `gridbridge-balance --dump"),
        ("", ParseError, "no row of statistics; expected rows of 8 columns"),
        ("a,b\n", ParseError, "no row of statistics; expected rows of 8 columns"),
    ],
    ids=["none", "empty", "another"],
)
def test_a_file_without_rows_is_a_one_line_error(
    tmp_path: Path, content: str | None, kind: type[GridbridgeError], right: str
) -> None:
    if content is not None:
        (tmp_path / "stats.csv").write_text(content)
    done = plot(tmp_path / "stats.csv", tmp_path / "pictures")

    assert isinstance(done.exception, kind)
    assert str(done.exception).startswith(f"{tmp_path}/stats.csv: {right}")
    assert not (tmp_path / "pictures").exists()


def test_a_folder_that_cannot_be_created_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "stats.csv").write_text(row(1))
    done = plot(tmp_path / "stats.csv", tmp_path / "stats.csv" / "in")

    assert isinstance(done.exception, StandardOutputUnwritable)
    assert str(done.exception).endswith("stats.csv/in: Not a directory")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (60, "1 min"), (379, "6 min 19 s"), (7260, "2 h 1 min"), (90000, "1 d 1 h")]
)
def test_a_duration_is_printed_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_root_plots_into_the_folder_of_the_balancer_as_the_account_of_the_balancer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became = list[str]()
    monkeypatch.setattr(balance_plan_and_plot, "drop_root_to_account", became.append)
    monkeypatch.setattr(balance_plan_and_plot, "plot_balancer_statistics_file", lambda *_: ())
    plot(tmp_path / "stats.csv", tmp_path)
    plot(tmp_path / "stats.csv", Path(BALANCE_PLOTS))

    assert became == [BALANCE_ACCOUNT]
