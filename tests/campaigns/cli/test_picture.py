"""The plot of a campaign shows each cluster, the failed tasks and the forecast."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from gridbridge.campaigns.cli import campaign_progress_display
from gridbridge.cli import plot_files
from gridbridge.errors import StandardOutputUnwritable
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignTaskEndCounts
from tests.builders.campaigns import NOON
from tests.campaigns.cli.test_task_argument import SWEEP

ONE = replace(SWEEP, submitted_at=NOON, tasks=100, ended=60, failed=5)
ENDS = (
    CampaignTaskEndCounts(at=NOON + timedelta(minutes=10), cluster="beta", tasks=20, failed=0),
    CampaignTaskEndCounts(at=NOON + timedelta(minutes=20), cluster="gamma", tasks=30, failed=5),
    CampaignTaskEndCounts(at=NOON + timedelta(minutes=30), cluster="beta", tasks=10, failed=0),
)
NOW = NOON + timedelta(minutes=40)
BAND = (NOON + timedelta(minutes=60), NOON + timedelta(minutes=90))


def axes(band: tuple[datetime, ...] = BAND, ended: int = 60) -> Axes:
    (found,) = campaign_progress_display.campaign_progress_figure(replace(ONE, ended=ended), ENDS, NOW, band).axes
    return found


def names(found: Axes) -> list[str]:
    return [one.get_text() for one in found.get_legend().get_texts()]


def test_the_plot_stacks_the_ended_tasks_of_each_cluster() -> None:
    found = axes()
    tops = [max(y for _, y in one.get_paths()[0].vertices) for one in found.collections]

    assert [30, 60] == tops
    assert {"beta: 30", "gamma: 30"} <= {*names(found)}


def test_the_plot_has_a_line_of_failed_tasks() -> None:
    found = axes()
    (line,) = [one for one in found.lines if str(one.get_label()).startswith("failed")]

    assert "failed, of all: 5" == line.get_label()
    assert 5 == max(line.get_ydata())


def test_the_forecast_band_reaches_from_now_to_p50_and_p90() -> None:
    (band,) = axes().patches
    corners = [tuple(map(float, each)) for each in band.get_xy()[:3]]

    assert [(date2num(at), y) for at, y in ((NOW, 60), (BAND[0], 100), (BAND[1], 100))] == corners
    assert "forecast: P50 to P90" in names(axes())


@pytest.mark.parametrize(("band", "ended"), [((), 60), (BAND, 100)])
def test_the_plot_has_no_forecast_band_without_a_forecast_or_after_the_end(
    band: tuple[datetime, ...], ended: int
) -> None:
    assert [] == [*axes(band, ended).patches]


@pytest.mark.parametrize("ending", plot_files.ENDINGS)
def test_a_plot_is_saved_in_each_accepted_image_format(tmp_path: Path, ending: str) -> None:
    figure = Figure(figsize=(1, 1))

    plot_files.save_plot(figure, f"{tmp_path}/a.{ending.upper()}", 50)

    assert [f"a.{ending.upper()}"] == [one.name for one in tmp_path.iterdir()]
    assert ending in figure.canvas.get_supported_filetypes()


def test_a_plot_that_cannot_be_saved_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()

    with pytest.raises(StandardOutputUnwritable, match=r"a\.png: Is a directory"):
        plot_files.save_plot(Figure(figsize=(1, 1)), f"{tmp_path}/a.png", 50)

    assert ["a.png"] == [one.name for one in tmp_path.iterdir()]
