"""The tasks that wait to be sent, and to which clusters they may go.

A task keeps off a cluster that failed it as long as one that did not is open, and for ever off one
at which it overran its walltime. Slots there are not for it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gridbridge.decisions.campaigns.failures.blacklist import BlacklistEntry, Pair
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.cycle_plan import CycleSituation, KeptOff

NOT_BARRED: Mapping[Pair, BlacklistEntry] = {}


class ClusterExclusions(NamedTuple):
    """Which clusters tasks keep off."""

    avoid: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


FREELY = ClusterExclusions()


class Backlog:
    """What waits, less what was taken; of those that may go somewhere, the choosy are taken first.

    Within a kind the state file takes the most urgent first.
    """

    def __init__(
        self,
        situation: CycleSituation,
        barred: Mapping[Pair, BlacklistEntry] = NOT_BARRED,
        campaigns: Iterable[Campaign] = (),
    ) -> None:
        """Count what is seen; `campaigns` have the clusters that are closed to them, too.

        A cluster that is barred is not open; where it is probed, one task goes to try it.
        """
        self._barred = barred
        self._unsent = {number: kinds(situation, number) for number in situation.waiting}
        self._tasks_taken: dict[Pair, Counter[ClusterExclusions]] = defaultdict(Counter)
        self._open = {
            campaign.number: [
                name
                for name, request in campaign.jdl.clusters.items()
                if name in situation.room
                and situation.room[name].may_start(request.slots)
                and (campaign.number, name) not in barred
            ]
            for campaign in campaigns or situation.campaigns
        }

    def taken(self, campaign: int, cluster: str) -> tuple[KeptOff, ...]:
        """Return how many of those that were taken to a cluster keep off which clusters."""
        return tuple(
            KeptOff(tasks=tasks, avoid=kind.avoid, never=kind.never)
            for kind, tasks in self._tasks_taken[campaign, cluster].items()
            if kind != FREELY
        )

    def all_of(self, campaign: int) -> int:
        """Return how many tasks are left, wherever they may go."""
        return sum(self._unsent.get(campaign, {}).values())

    def at(self, campaign: int, cluster: str) -> int:
        """Return how many of them may go to a cluster; to one that is probed one does."""
        unsent = self._unsent.get(campaign, {})
        tasks = sum(unsent[kind] for kind in self._going(campaign, cluster))
        if self._is_probed(campaign, cluster):
            return min(tasks, 1 - self._tasks_taken[campaign, cluster].total())
        return tasks

    def take(self, campaign: int, cluster: str, tasks: int) -> None:
        """Take so many of them."""
        unsent = self._unsent.get(campaign, {})
        for kind in self._going(campaign, cluster):
            tasks_taken = min(tasks, unsent[kind])
            unsent[kind] -= tasks_taken
            tasks -= tasks_taken
            if tasks_taken:
                self._tasks_taken[campaign, cluster][kind] += tasks_taken

    def _going(self, campaign: int, cluster: str) -> list[ClusterExclusions]:
        """Return the kinds of those that are left and may go to a cluster.

        A probe costs a task a try: one that failed there goes only if no other is left.
        """
        unsent = self._unsent.get(campaign, {})
        able = [kind for kind in unsent if unsent[kind] and cluster not in kind.never]
        gladly = [kind for kind in able if cluster not in kind.avoid]
        if self._is_probed(campaign, cluster):
            return gladly or able
        return [kind for kind in able if kind in gladly or self._goes_back(kind, campaign, cluster)]

    def _goes_back(self, kind: ClusterExclusions, campaign: int, cluster: str) -> bool:
        elsewhere = (name for name in self._open.get(campaign, ()) if name != cluster)
        return all(name in kind.avoid or name in kind.never for name in elsewhere)

    def _is_probed(self, campaign: int, cluster: str) -> bool:
        return self._barred.get((campaign, cluster)) is BlacklistEntry.PROBE


def kinds(situation: CycleSituation, campaign: int) -> dict[ClusterExclusions, int]:
    """Count a campaign's tasks by what they keep off, those that keep off most first."""
    choosy = sorted(
        situation.kept_off.get(campaign, ()),
        key=lambda exclusion: -len({*exclusion.avoid, *exclusion.never}),
    )
    unrestricted = situation.waiting[campaign] - sum(exclusion.tasks for exclusion in choosy)
    return {
        ClusterExclusions(exclusion.avoid, exclusion.never): exclusion.tasks for exclusion in choosy
    } | {FREELY: max(0, unrestricted)}
