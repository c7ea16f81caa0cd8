"""What users' commands do about events: show them, and for their owner what they are about."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.campaigns.store import campaign_files, published_campaign_files
from gridbridge.campaigns.store.campaign_files import NotTheirs
from gridbridge.decisions.campaigns.failures.event_messages import text
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_events import (
    BARRING,
    CampaignEvent,
    EventCode,
    EventKind,
    ShownEvents,
)
from gridbridge.model.campaigns.published_campaigns import ShownGrid, ShownGridCluster
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.model.published import ShownCluster
from gridbridge.state import published_json as shown

POLLED_FOR = timedelta(minutes=10)  # before the runner's cycle; longer than a stretched interval
TAIL_BYTES, TAIL_LINES = 4096, 5  # of a task's standard error


def published_events(folder: str = PUBLISHED) -> tuple[CampaignEvent, ...]:
    """Return the events that are published, by number."""
    shown = published_campaign_files.read(ShownEvents, folder)
    return shown.events if shown else ()


def words(event: CampaignEvent, states: Mapping[int, CampaignState]) -> str:
    """Say what happened, as its campaign is now."""
    return text(event, states.get(event.campaign))


def clusters(folder: str = PUBLISHED) -> tuple[ShownGridCluster, ...]:
    """Return the clusters that campaigns may use, by name."""
    grid = published_campaign_files.read(ShownGrid, folder)
    if not grid:
        return ()
    return tuple(
        _as_polled(cluster, grid.at, folder) if cluster.slots is None else cluster
        for cluster in grid.clusters
    )


def _as_polled(cluster: ShownGridCluster, at: datetime, folder: str) -> ShownGridCluster:
    """Return a cluster that the runner knows nothing of as the poller has seen it of late."""
    polled = shown.read(f"{folder}/{shown.CLUSTERS}/{cluster.name}.json", ShownCluster)
    if not polled or polled.trouble or not polled.taken_at or polled.taken_at < at - POLLED_FOR:
        return cluster
    free = polled.free_slots if polled.besteffort_slots is None else polled.besteffort_slots
    return replace(
        cluster,
        answered_at=polled.taken_at,
        slots=polled.slots,
        used=polled.used,
        free=free,
        free_for_normal=polled.free_slots,
    )


def chosen(
    events: Iterable[CampaignEvent],
    campaign: int | None,
    number: int | None,
    *,
    is_global: bool,
    is_all: bool,
) -> tuple[CampaignEvent, ...]:
    """Return those of a campaign, of clusters, or one; the closed ones only where asked for."""
    return tuple(
        event
        for event in events
        if (is_all or number is not None or not event.closed_at)
        and number in (None, event.number)
        and (campaign is None or event.campaign == campaign)
        and (not is_global or event.kind is EventKind.CLUSTER)
    )


def closed_to(events: Iterable[CampaignEvent], cluster: str) -> tuple[bool, tuple[int, ...]]:
    """Say whether a cluster does not answer, and to which campaigns it is closed."""
    of = [event for event in events if event.cluster == cluster and not event.closed_at]
    is_down = any(event.code is EventCode.GET_JOBS for event in of)
    return is_down, tuple(sorted({event.campaign for event in of if event.code in BARRING}))


def first_task(event: CampaignEvent, folder: str = CAMPAIGNS) -> tuple[str, tuple[str, ...]]:
    """Return the parameters and the last words of an event's first task, for their owner alone.

    Nobody else can read the campaign's file, and its outputs lie in the owner's folder: of a
    cluster that sees another home they are not here. Both are empty then.
    """
    if event.first_task is None:
        return "", ()
    try:
        lines, directory = _brought(event, folder)
        home = os.path.expanduser("~")
        directory = directory.replace("$HOME", home, 1)
        outputs = f"{os.path.join(home, directory)}/campaign.{event.campaign}"
        is_ours = campaign_files.owner_of(event.campaign, folder) == os.geteuid()
        words = _last_words(outputs, event) if is_ours else ()  # root follows nobody's paths
        return _plain(lines[event.first_task]), words
    except (NotTheirs, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "", ()


def directory(event: CampaignEvent, folder: str = CAMPAIGNS) -> str:
    """Return where tasks could not start, as their owner said it, and for that owner alone."""
    if event.code is not EventCode.SETUP_ERROR:
        return ""
    try:
        return _plain(_brought(event, folder)[1]) or "$HOME"
    except (NotTheirs, KeyError, TypeError, AttributeError):
        return ""


def _brought(event: CampaignEvent, folder: str) -> tuple[list[str], str]:
    """Return all parameters of an event's campaign, and the folder that its tasks have there."""
    header, lines = campaign_files.brought(event.campaign, folder)
    return lines, str(header["clusters"][event.cluster].get("exec_directory", ""))


def _last_words(folder: str, event: CampaignEvent) -> tuple[str, ...]:
    """Return the last lines of the standard error of a task's last attempt."""
    form = re.compile(rf"{event.first_task}\.(\d+)\.err")
    attempts = [int(match[1]) for name in os.listdir(folder) if (match := form.fullmatch(name))]
    if not attempts:
        return ()
    with open(f"{folder}/{event.first_task}.{max(attempts)}.err", "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return tuple(map(_plain, text.splitlines()[-TAIL_LINES:]))


def _plain(line: str) -> str:
    """Return a line that steers no terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)
