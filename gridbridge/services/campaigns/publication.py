"""What people see of campaigns and their tasks: states and numbers, never parameters."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set

from gridbridge.decisions.campaigns import why
from gridbridge.model.campaigns.campaign import Attempt, Campaign, CampaignState, Outcome
from gridbridge.model.campaigns.events import Code, Event
from gridbridge.model.campaigns.plan import Plan, Seen
from gridbridge.model.campaigns.reasons import ShownCycle
from gridbridge.model.campaigns.shown import ShownCampaign, ShownCampaigns
from gridbridge.model.campaigns.steps import is_step
from gridbridge.model.campaigns.task import Ended, ShownTask
from gridbridge.model.places import PUBLISHED
from gridbridge.services.campaigns.forecasts import Forecasts
from gridbridge.shell.clock import Clock
from gridbridge.state import campaigns_shown, tasks_shown
from gridbridge.state.database import Database
from gridbridge.state.database.campaign_tasks import CampaignTasks
from gridbridge.state.database.campaigns import Campaigns
from gridbridge.state.tasks_shown import A_FILE


class Publication:
    """What publishes them."""

    def __init__(
        self,
        database: Database,
        campaigns: Campaigns,
        forecasts: Forecasts,
        clock: Clock,
        folder: str = PUBLISHED,
    ) -> None:
        self._campaigns = campaigns
        self._forecasts = forecasts
        self._tasks = CampaignTasks(database)
        self._clock = clock
        self._folder = folder
        self._killed: set[int] = set()  # campaigns whose tasks may be shown as they were

    def show(self, opened: Iterable[Event]) -> None:
        """Show all campaigns, with how many of these events they have."""
        waiting, left = self._campaigns.waiting(), self._left()
        events = _counted(opened, left)
        shown = (
            _shown(one, waiting.get(one.number, 0), events[one.number], left.get(one.number, set()))
            for one in self._campaigns.all()
            if one.state is not CampaignState.PURGED
        )
        whole = ShownCampaigns(
            at=self._clock.now(),
            campaigns=tuple(map(self._forecasts.add_to, shown)),
            errors=self._forecasts.errors(),
        )
        campaigns_shown.put(whole, self._folder)

    def _left(self) -> dict[int, set[str]]:
        """Return at which clusters each campaign has arrays of which a task may live."""
        found: dict[int, set[str]] = {}
        for one in self._campaigns.open_arrays():
            found.setdefault(one.campaign, set()).add(one.cluster)
        return found

    def show_cycle(self, seen: Seen, plan: Plan) -> None:
        """Show what a cycle looked at, and why it did what it did."""
        free = {name: room.free_slots for name, room in seen.room.items()}
        told = why.reasons(seen, plan)
        cycle = ShownCycle(at=self._clock.now(), free_slots=free, reasons=told)
        campaigns_shown.put(cycle, self._folder)

    def begin(self, campaigns: Iterable[int]) -> None:
        """Note whose tasks a cycle may touch.

        What a cycle before us began and did not end was killed: those tasks are all shown anew.
        """
        self._killed |= tasks_shown.touching(self._folder)
        tasks_shown.touch({*campaigns, *self._killed}, self._folder)

    def end(self, attempts: Iterable[Attempt]) -> None:
        """Show the tasks that a cycle sent or found ended, and note how many of those ended."""
        for campaign in self._killed:
            self._show_whole(campaign)
        self._killed.clear()
        self._show_touched(attempts)
        tasks_shown.touched(self._folder)

    def _show_touched(self, attempts: Iterable[Attempt]) -> None:
        touched: dict[tuple[int, int], set[int]] = defaultdict(set)
        for one in attempts:
            if is_step(one.task):
                continue
            of_part = touched[one.campaign, one.task // A_FILE]
            of_part.update(() if one.outcome is Outcome.COPY else (one.task,))
        ended: dict[int, list[ShownTask]] = defaultdict(list)
        for (campaign, part), numbers in sorted(touched.items()):
            shown = self._show_part(campaign, part)
            ended[campaign] += [one for one in shown if one.number in numbers and one.has_ended]
        for campaign, tasks in ended.items():
            self._note_ends(campaign, tasks)

    def _show_whole(self, campaign: int) -> None:
        for part in range(self._tasks.last(campaign) // A_FILE + 1):
            self._show_part(campaign, part)

    def _show_part(self, campaign: int, part: int) -> tuple[ShownTask, ...]:
        low = part * A_FILE
        shown = self._tasks.sent(campaign, low, low + A_FILE - 1)
        tasks_shown.put(campaign, part, shown, self._folder)
        return shown

    def _note_ends(self, campaign: int, tasks: Iterable[ShownTask]) -> None:
        now = self._clock.now()
        counts = Counter((one.cluster, one.has_failed) for one in tasks)
        found = (
            Ended(
                at=now,
                cluster=name,
                tasks=counts[name, False] + counts[name, True],
                failed=counts[name, True],
            )
            for name in sorted({name for name, _ in counts})
        )
        tasks_shown.add_ends(campaign, tuple(found), self._folder)


def _counted(opened: Iterable[Event], left: Mapping[int, Set[str]]) -> Counter[int]:
    """Count events by campaign; one of a cluster that was dropped is everybody's who is there."""
    found = Counter[int]()
    for event in opened:
        if event.code is Code.DROPPED:
            found.update(number for number, clusters in left.items() if event.cluster in clusters)
        else:
            found[event.campaign] += 1
    return found


def _shown(one: Campaign, waiting: int, events: int, left: Set[str]) -> ShownCampaign:
    is_cancelled = one.state is CampaignState.CANCELLED
    return ShownCampaign(
        number=one.number,
        name=one.jdl.name,
        owner=one.owner,
        submitted_at=one.submitted_at,
        type=one.jdl.type,
        state=one.state,
        clusters=tuple(one.jdl.clusters),
        tasks=one.tasks,
        ended=one.ended,
        failed=one.failed,
        waiting=waiting,
        events=events,
        ending_at=tuple(sorted(left)) if is_cancelled else (),
    )
