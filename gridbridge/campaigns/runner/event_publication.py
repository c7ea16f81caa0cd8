"""Publish campaign events and cluster capacities as counts, never task parameters."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from gridbridge.campaigns.runner.occupancy import room as room_of
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.store.campaign_event_rows import CampaignEvents
from gridbridge.model.campaigns.campaign_events import CampaignEvent, ShownEvents
from gridbridge.model.campaigns.cycle_plan import CycleSituation
from gridbridge.model.campaigns.published_campaigns import ShownGrid, ShownGridCluster
from gridbridge.model.places import PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile

NOBODY: Mapping[str, ClusterSnapshot] = {}
CLOSED_SHOWN = timedelta(days=7)


class EventPublication:
    """Publishes campaign events and the capacities of the clusters."""

    def __init__(
        self, policy: Policy, database: StateFile, clock: Clock, folder: str = PUBLISHED
    ) -> None:
        self._policy = policy
        self._folder = folder
        self._events = CampaignEvents(database)
        self._clock = clock

    def show(self) -> tuple[CampaignEvent, ...]:
        """Publish open and recently closed events; return the open ones."""
        now = self._clock.now()
        events = self._events.shown(now - CLOSED_SHOWN)
        published_campaign_files.put(ShownEvents(at=now, events=events), self._folder)
        return tuple(event for event in events if not event.closed_at)

    def show_clusters(
        self, situation: CycleSituation, other_snapshots: Mapping[str, ClusterSnapshot] = NOBODY
    ) -> None:
        """Publish cluster capacities, for unqueried clusters from other programs' snapshots."""
        grid = ShownGrid(
            at=self._clock.now(), clusters=tuple(self._clusters(situation, other_snapshots))
        )
        published_campaign_files.put(grid, self._folder)

    def _clusters(
        self, situation: CycleSituation, other_snapshots: Mapping[str, ClusterSnapshot]
    ) -> Iterator[ShownGridCluster]:
        rooms = {**room_of(self._policy, other_snapshots, {}, {}), **situation.room}
        moments = {name: snapshot.taken_at for name, snapshot in other_snapshots.items()}
        moments |= dict.fromkeys(situation.room, situation.at)
        jdls = {campaign.number: campaign.jdl for campaign in situation.campaigns}
        for name, cluster in sorted(self._policy.clusters.items()):
            room = rooms.get(name)
            views = [view for view in situation.there if view.cluster == name]
            waiting = sum(view.waiting for view in views)
            used = (
                view.used(jdls[view.campaign].slots_at(name) if view.campaign in jdls else 1)
                for view in views
            )
            yield ShownGridCluster(
                name=name,
                kind=cluster.kind,
                answered_at=moments.get(name),
                slots=room.slots if room else None,
                used=room.used if room else None,
                free=room.free(is_besteffort=True) if room else None,
                free_for_normal=room.free_slots if room else None,
                waiting=waiting,
                running=sum(view.listed for view in views) - waiting,
                used_by_campaigns=round(sum(used)),
            )
