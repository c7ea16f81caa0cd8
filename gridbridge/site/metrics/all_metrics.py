"""Everything that is measured, from the published files: no rights are needed for it."""

import os
from collections.abc import Callable, Iterable
from datetime import datetime

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.tools import campaign_metrics
from gridbridge.campaigns.tools.campaign_metrics import PublishedCampaignFiles
from gridbridge.elastic.store import published_balance_file
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_events import ShownEvents
from gridbridge.model.campaigns.published_campaigns import ShownCampaigns, ShownGrid
from gridbridge.model.places import BALANCE_PUBLISHED, ELSEWHERE, PUBLISHED
from gridbridge.model.rebalance.published_rounds import RebalanceRound, ShownRound
from gridbridge.program.metric_family import MetricFamily, several
from gridbridge.site.metrics import elastic_metrics, rebalance_metrics, transfer_metrics
from gridbridge.state import published_json as files
from gridbridge.state import published_round_files

READABLE = "published_readable"
MEANS = "Whether a part's published files can be read"
NOTHING = (several(READABLE, MEANS, "part", [(("transfers",), 0.0), (("elastic",), 0.0)]),)


def measured(
    now: datetime, folder: str = PUBLISHED, balance: str = BALANCE_PUBLISHED
) -> tuple[tuple[MetricFamily, ...], tuple[str, ...]]:
    """Return all families, and a line for each part whose files can't be read.

    A part that nobody published has none, and one that can't be read is told by
    gridbridge_published_readable. StateError where neither folder is there.
    """
    parts: dict[str, Callable[[], Iterable[MetricFamily]]] = {}
    if os.path.isdir(folder):
        parts["transfers"] = lambda: transfer_metrics.families(files.read_all(folder), now)
        parts["campaigns"] = lambda: campaign_metrics.families(_campaigns(folder))
        parts["rebalancing"] = lambda: rebalance_metrics.families(_rounds(folder), now)
    if os.path.isdir(balance):
        parts["elastic"] = lambda: _elastic(balance)
    if not parts:
        raise StateError(f"{folder}, {balance}: no such folders; {ELSEWHERE}")
    return _read(parts)


def _read(
    parts: dict[str, Callable[[], Iterable[MetricFamily]]],
) -> tuple[tuple[MetricFamily, ...], tuple[str, ...]]:
    families, troubles, readable = list[MetricFamily](), list[str](), dict[str, float]()
    for name, part in parts.items():
        try:
            families += part()
            readable[name] = 1.0
        except GridbridgeError as error:
            troubles.append(str(error))
            readable[name] = 0.0
    rows = [((name,), value) for name, value in readable.items()]
    families.append(several(READABLE, MEANS, "part", rows))
    return tuple(families), tuple(troubles)


def _campaigns(folder: str) -> PublishedCampaignFiles:
    return PublishedCampaignFiles(
        campaigns=published_campaign_files.read(ShownCampaigns, folder),
        grid=published_campaign_files.read(ShownGrid, folder),
        events=published_campaign_files.read(ShownEvents, folder),
    )


def _rounds(folder: str) -> dict[RebalanceRound, ShownRound]:
    rounds = {kind: published_round_files.read(kind, folder) for kind in RebalanceRound}
    return {kind: last for kind, last in rounds.items() if last}


def _elastic(folder: str) -> Iterable[MetricFamily]:
    shown = published_balance_file.read_published_balance(folder)
    return elastic_metrics.families(shown) if shown else ()
