"""The updator: what the clusters say of free slots and of our tasks, one question each.

Unknown never means gone: of a cluster that does not answer nothing is decided, and a task that is
neither listed nor accounted for is waited for.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridbridge.apply.campaigns import stress
from gridbridge.decisions.campaigns import ends as rules
from gridbridge.decisions.campaigns.copies import by_task
from gridbridge.decisions.campaigns.failures.disputed import given_up
from gridbridge.decisions.campaigns.failures.dropped import written_off
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    Campaign,
    CampaignState,
    Outcome,
)
from gridbridge.model.campaigns.events import Event
from gridbridge.model.campaigns.jdl import Type
from gridbridge.model.campaigns.plan import Seen, Tried
from gridbridge.model.campaigns.sections import CampaignsAt
from gridbridge.model.campaigns.steps import is_step
from gridbridge.model.job import JobEnd
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.services.campaigns.asking import Asking, Ends, ends_of, lives
from gridbridge.services.campaigns.listed import (
    elapsed,
    listed_places,
    room,
    there,
    wanted_clusters,
)
from gridbridge.services.campaigns.missing import Missing
from gridbridge.services.campaigns.sending.limits import Limits
from gridbridge.services.campaigns.tails import Tails, besides
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.campaign_copies import CampaignCopies
from gridbridge.state.database.campaign_events import CampaignEvents
from gridbridge.state.database.campaign_tries import CampaignTries
from gridbridge.state.database.campaigns import Campaigns
from gridbridge.state.database.marks import Marks
from gridbridge.state.database.missing import MissingTasks
from gridbridge.state.database.predictions import Predictions

Judge = Callable[[Array, Mapping[Attempt, float], Ends, bool], tuple[Attempt, ...]]
UNSEEN = JobEnd()
NONE = frozenset[Attempt]()
ARRAYS_AT_ONCE = 20  # one call sends them

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a cluster's list leaves out of an array."""

    array: Array
    missing: Mapping[Attempt, float]  # and for how many seconds
    pending: int  # attempts whose ends are not known
    is_listed: bool  # some of it is

    @property
    def places(self) -> tuple[int, ...]:
        """The places of all that are missing, in their order."""
        return tuple(sorted(one.place for one in self.missing))


class Updator:
    """Asks the clusters."""

    def __init__(
        self,
        policy: Policy,
        database: Database,
        predictions: Predictions,
        marks: Marks,
        clock: Clock,
        *,
        is_dry: bool = False,
    ) -> None:
        self._policy = policy
        self._asking = Asking(policy, database, clock, is_dry=is_dry)
        self._campaigns = Campaigns(database)
        self._tries = CampaignTries(database, self._campaigns)
        self._copies = CampaignCopies(database, self._campaigns)
        self._tails = Tails(self._campaigns, policy.finalize)
        self._events = CampaignEvents(database)
        self._limits = Limits(policy, clock)
        self._predictions = predictions
        self._marks = marks
        self._clock = clock
        self._missing = Missing(MissingTasks(database), clock)
        self._disputed: list[Tried] = []  # of the last look
        self._told: set[tuple[int, int, int]] = set()  # campaign, array, place
        self.answers: dict[str, ClusterSnapshot] = {}  # of the last look
        self.elapsed: dict[tuple[int, str], tuple[float, ...]] = {}  # s, of the tasks that run

    def news(self) -> list[ClusterSnapshot]:
        """Return the answers of the last look that the poller has not shown to submissions."""
        return [seen for name, seen in self.answers.items() if name not in self._asking.polled]

    def look(self) -> Seen:
        """Return all that a decision may look at."""
        campaigns, arrays = self._campaigns.unfinished(), self._campaigns.open_arrays()
        waiting = self._campaigns.waiting()
        used = {name for one in campaigns for name in one.jdl.clusters}
        used |= {one.cluster for one in arrays}
        answers = self.answers = self._asking.ask(used, arrays, self._policy.poller.interval_s)
        released = [
            one for one in arrays if one.state is ArrayState.RELEASED and one.cluster in answers
        ]
        rivals = self._copies.rivals(one.number for one in campaigns)
        steps = self._tries.steps(campaigns)
        once = {(one.campaign, one.array) for one in steps}
        of_tasks = [one for one in released if (one.campaign, one.number) not in once]
        self.elapsed = elapsed(of_tasks, answers, besides(rivals))
        self._missing.begin()
        events, dropped = self._events.open(), frozenset(used - self._policy.clusters.keys())
        lost = [one for one in arrays if one.cluster in written_off(events, dropped)]
        every, over = self._ended(released, answers, self._judge(campaigns, events))
        every, over = (*every, *self._written_off(lost)), (*over, *lost)
        ended = tuple(one for one in every if not is_step(one.task))
        tests = (one for one in campaigns if one.jdl.type is Type.TEST)
        scripts = self._scripts(campaigns, waiting)
        limits = self._limits.of(wanted_clusters(campaigns, waiting) & answers.keys())
        return Seen(
            campaigns=campaigns,
            waiting=waiting,
            arrays=arrays,
            room=room(self._policy, answers, stress.ask(scripts), limits),
            max_tasks=self._policy.runner.max_tasks,
            there=there(of_tasks, answers, self._clock.now()),
            tried={one.number: self._tries.tried(one.number) for one in tests},
            ended=ended,
            over=over,
            disputed=tuple(self._disputed),
            missed=tuple(self._missing.changed),
            ratios=self._predictions.ratios(one.number for one in campaigns),
            at=self._clock.now(),
            asked=frozenset(used & self._policy.clusters.keys()),
            dropped=dropped,
            earlier=self._tries.earlier(ended),
            events=events,
            records=self._events.records(one.number for one in campaigns),
            failures=self._policy.failures,
            rivals=rivals,
            tails=self._tails.look(campaigns, arrays, answers, by_task(rivals), self._clock.now()),
            finalize=self._policy.finalize,
            arrays_at_once=ARRAYS_AT_ONCE,
            steps=steps,
            stepped=tuple(one for one in every if is_step(one.task)),
            last_arrays=self._last_arrays(campaigns),
        )

    def _last_arrays(self, campaigns: Iterable[Campaign]) -> dict[int, Mapping[str, int]]:
        """Return the last array at each cluster, of campaigns that have epilogues."""
        with_steps = (one.number for one in campaigns if one.jdl.has_steps)
        return {number: self._tries.last_arrays(number) for number in with_steps}

    def _scripts(
        self, campaigns: Iterable[Campaign], waiting: Mapping[int, int]
    ) -> dict[str, CampaignsAt]:
        """Return the sections of clusters to which something may be sent."""
        wanted = wanted_clusters(campaigns, waiting)
        return {name: one for name, one in self._policy.campaigns.items() if name in wanted}

    def _ended(
        self,
        arrays: Iterable[Array],
        answers: dict[str, ClusterSnapshot],
        judge: Judge,
    ) -> tuple[tuple[Attempt, ...], tuple[Array, ...]]:
        """Return the attempts that have ended, and the arrays that are over by that.

        What is listed is not read one by one: most of what was sent is that.
        """
        ended: list[Attempt] = []
        over: list[Array] = []
        looks = [*filter(None, (self._look_at(one, answers[one.cluster]) for one in arrays))]
        told = self._ends({look.array: look.places for look in looks if look.missing})
        for look in looks:
            ends = told.get(look.array) if look.missing else {}
            is_told = ends is not None
            found = judge(look.array, look.missing, ends or {}, look.is_listed) if is_told else ()
            self._missing.settle(look.missing, found)
            ended += found
            over += [look.array] if len(found) == look.pending else []
        return tuple(ended), tuple(over)

    def _look_at(self, array: Array, seen: ClusterSnapshot) -> Look | None:
        """Return what is missing of an array; None while all of it is listed."""
        listed = listed_places(array, seen)
        self._missing.see(array, listed)
        if len(listed) == array.size:
            return None
        pending = self._tries.pending_places(array)
        missing = self._missing.for_s(self._tries.pending_at(array, pending - listed))
        return Look(array=array, missing=missing, pending=len(pending), is_listed=bool(listed))

    def _written_off(self, arrays: Iterable[Array]) -> Iterator[Attempt]:
        """Give the attempts of arrays whose cluster nobody asks any more, as root said."""
        for array in arrays:
            for one in self._campaigns.pending(array):
                yield replace(one, outcome=Outcome.SITE_FAULT)

    def _judge(self, campaigns: Iterable[Campaign], events: Iterable[Event] = ()) -> Judge:
        self._disputed.clear()
        known, lost = {one.number: one for one in campaigns}, given_up(events)
        marks, forgotten_s = self._marks.all(), self._policy.runner.forgotten_s

        def ended(
            array: Array,
            missing: Mapping[Attempt, float],
            ends: Ends,
            is_listed: bool,
        ) -> tuple[Attempt, ...]:
            campaign = known.get(array.campaign)
            wish = campaign.jdl.clusters.get(array.cluster) if campaign else None
            if campaign and campaign.state is CampaignState.CANCELLED:
                ends = {place: end for place, end in ends.items() if end}  # nobody waits for more
            if (array.campaign, array.cluster) in lost:
                ends = {place: end or UNSEEN for place, end in ends.items()}
            contradicted = (one for one in missing if ends.get(one.place, UNSEEN) is None)
            self._tell_disputed(array.cluster, contradicted)
            kept = self._still_known(array, rules.forgotten(missing, ends, forgotten_s), is_listed)
            left = {one: missed_s for one, missed_s in missing.items() if one not in kept}
            wiped = marks.get((array.campaign, array.number), {})
            return rules.ended(left, ends, wish.walltime_s if wish else 0, forgotten_s, wiped)

        return ended

    def _ends(self, asked: Mapping[Array, Sequence[int]]) -> dict[Array, Ends]:
        return ends_of(self._policy, asked)

    def _still_known(
        self, array: Array, late: tuple[Attempt, ...], is_listed: bool
    ) -> frozenset[Attempt]:
        return rules.still_known(late, lives(self._policy, array), is_listed) if late else NONE

    def _tell_disputed(self, cluster: str, attempts: Iterable[Attempt]) -> None:
        """Note the tasks whose records contradict each other: somebody may have forged one."""
        for one in attempts:
            self._disputed.append(
                Tried(
                    campaign=one.campaign,
                    task=one.task,
                    attempt=one.attempt,
                    cluster=cluster,
                    outcome=one.outcome,
                )
            )
            if (key := (one.campaign, one.array, one.place)) not in self._told:
                self._told.add(key)
                name = f"{one.campaign}.{one.array}"
                _log.warning("event=disputed array=%s at=%s place=%s", name, cluster, one.place)
