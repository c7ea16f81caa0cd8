"""Collects the metrics of all capabilities from published files; needs no rights."""

import os
from collections.abc import Callable, Iterable
from datetime import datetime

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.elastic.store import published_balance_file
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.campaign_events import ShownCampaignEvents
from gridbridge.model.campaigns.published_campaigns import ShownCampaigns, ShownGrid
from gridbridge.model.places import BALANCE_PUBLISHED, ELSEWHERE, PUBLISHED
from gridbridge.model.rebalance.published_rounds import RebalanceRound, ShownRebalanceRound
from gridbridge.program.metric_family import MetricFamily, metric_with_labels
from gridbridge.site import metric_families
from gridbridge.site.metric_families import PublishedCampaignFiles
from gridbridge.state import published_json as files
from gridbridge.state import published_round_files

READABLE = "published_readable"
MEANS = "Whether a part's published files can be read"
NOTHING = (
    metric_with_labels(READABLE, MEANS, "part", [(("transfers",), 0.0), (("elastic",), 0.0)]),
)


def measure_all_capabilities(
    now: datetime, folder: str = PUBLISHED, balance: str = BALANCE_PUBLISHED
) -> tuple[tuple[MetricFamily, ...], tuple[str, ...]]:
    """Return all metrics, and a line for each capability with unreadable files.

    A capability without published files has no metrics; unreadable files also set
    gridbridge_published_readable to 0. StateError if neither folder exists.
    """
    parts: dict[str, Callable[[], Iterable[MetricFamily]]] = {}
    if os.path.isdir(folder):
        parts["transfers"] = lambda: metric_families.transfer_metric_families(
            files.read_published_state(folder), now
        )
        parts["campaigns"] = lambda: metric_families.campaign_metric_families(
            _published_campaign_files(folder)
        )
        parts["rebalancing"] = lambda: metric_families.rebalance_metric_families(
            _published_rounds(folder), now
        )
    if os.path.isdir(balance):
        parts["elastic"] = lambda: _elastic_families(balance)
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
    families.append(metric_with_labels(READABLE, MEANS, "part", rows))
    return tuple(families), tuple(troubles)


def _published_campaign_files(folder: str) -> PublishedCampaignFiles:
    return PublishedCampaignFiles(
        campaigns=published_campaign_files.read_published_campaign_value(ShownCampaigns, folder),
        grid=published_campaign_files.read_published_campaign_value(ShownGrid, folder),
        events=published_campaign_files.read_published_campaign_value(ShownCampaignEvents, folder),
    )


def _published_rounds(folder: str) -> dict[RebalanceRound, ShownRebalanceRound]:
    rounds = {
        kind: published_round_files.read_published_round(kind, folder) for kind in RebalanceRound
    }
    return {kind: last for kind, last in rounds.items() if last}


def _elastic_families(folder: str) -> Iterable[MetricFamily]:
    shown = published_balance_file.read_published_balance(folder)
    return metric_families.elastic_metric_families(shown) if shown else ()
