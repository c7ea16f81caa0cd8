"""gridbridge plot draws a picture of what was recorded, with titles of one line, or says that nothing was."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.model.campaigns.published_campaigns_and_tasks import CampaignTaskEndCounts
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.site import site_history
from gridbridge.site.cli import site_plots
from gridbridge.site.site_history import NodeCounts, QueueHistory
from gridbridge.state.cluster_query_tables import PastClusterQuery
from tests.campaigns.cli.published_builder import make_shown_campaign, publish_campaigns

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SINCE = NOW - timedelta(hours=2)
TITLE = re.compile(r"<!-- (.*?) -->")  # of an SVG by matplotlib: each text, as a comment before its glyphs


def queries(cluster: str, *pending: int | None) -> list[PastClusterQuery]:
    return [
        PastClusterQuery(cluster=cluster, at=SINCE + timedelta(minutes=minute), pending=count, free_slots=count)
        for minute, count in enumerate(pending)
    ]


def draw_queues(path: str) -> None:
    history = QueueHistory(
        queries={"alpha": queries("alpha", 1, 2, 3), "beta": queries("beta", 4, None, 5)},
        in_progress={"transfer-beta": [(SINCE, 0), (NOW, 2)]},
    )
    site_plots.draw_queue_history(history, SINCE, NOW, path)


def draw_nodes(path: str) -> None:
    nodes = {ElasticNodeState.READY: 3, ElasticNodeState.FAILED: 1}
    site_plots.draw_node_history([NodeCounts(at=SINCE, nodes=nodes)], NOW, path)


def draw_campaign(path: str) -> None:
    ends = [
        CampaignTaskEndCounts(at=NOW, cluster=name, tasks=count, failed=0) for name, count in (("beta", 2), ("c", 1))
    ]
    shown = make_shown_campaign(tasks=9, ended=3, failed=1, submitted_at=SINCE, p50_at=NOW + timedelta(hours=1))
    site_plots.draw_campaign_ends(shown, ends, NOW, path)


def draw_nothing(path: str) -> None:
    site_plots.draw_campaign_ends(make_shown_campaign(submitted_at=SINCE), [], NOW, path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("draw", "texts"),
    [
        (draw_queues, {"Waiting tasks of each cluster", "Transfers in progress, by queue", "alpha", "transfer-beta"}),
        (draw_nodes, {"Nodes of the balancer by state: 4 at the last round that acted", "ready", "failed"}),
        (draw_campaign, {"Campaign 7: 3 of 9 tasks ended, 1 failed", "beta", "c", "all tasks", "end, P50"}),
        (draw_nothing, {"Campaign 7: 0 of 2 tasks ended", "all tasks"}),
    ],
)
def test_a_picture_names_what_it_shows(draw: Callable[[str], None], texts: set[str], tmp_path: Path) -> None:
    draw(f"{tmp_path}/x.svg")

    assert texts <= set(TITLE.findall((tmp_path / "x.svg").read_text()))


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(gridbridge, ["plot", *words, "--out", str(folder / "x.png")])


def test_anybody_may_draw_a_campaign(tmp_path: Path) -> None:
    publish_campaigns(tmp_path, make_shown_campaign())
    done, unknown = (run(tmp_path, "campaign", number, "--published", str(tmp_path)) for number in ("7", "8"))

    assert (done.exit_code, done.output) == (0, f"{tmp_path}/x.png\n")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert str(unknown.exception) == "campaign 8: no such campaign; `gridstat` lists campaigns"


def test_nothing_recorded_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gridbridge.toml").write_text('[site]\ncluster = "a"\n[cluster.a]\nkind = "embedded"\nfolder = "/f"\n')
    empty = QueueHistory(queries={}, in_progress={})
    monkeypatch.setattr(site_history, "read_queue_history", lambda *_: empty)
    monkeypatch.setattr(site_history, "read_node_history", lambda *_: ())

    queues, nodes = run(tmp_path, "queues", "--config", str(tmp_path / "gridbridge.toml")), run(tmp_path, "nodes")

    assert "nothing was recorded in the last 24 h" in str(queues.exception)
    assert "no round of gridbridge-balance acted in the last 24 h" in str(nodes.exception)
    assert not (tmp_path / "x.png").exists()
