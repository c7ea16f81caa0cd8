"""Submit arrays through root's helper, which acts as the owner.

One call submits several arrays of one campaign at one cluster.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gridbridge.campaigns.runner.array_commands import ArrayCommands
from gridbridge.campaigns.runner.sending.owner_fairness import ANSWERS, OwnerTimeBudget
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import Array, ArrayState, Attempt, SentTask
from gridbridge.model.campaigns.cycle_plan import KeptOff, TaskSend
from gridbridge.shell.clock import Clock


class IntendedSubmissions:
    """Records intended arrays in the state file, then submits them."""

    def __init__(
        self,
        campaigns: CampaignRows,
        acts: ArrayCommands,
        clock: Clock,
        settle: Callable[[Array, SentTask], None],
        most: int,
        turns: OwnerTimeBudget,
    ) -> None:
        self._campaigns = campaigns
        self._acts = acts
        self._clock = clock
        self._settle = settle
        self._most = most  # maximum tasks of an array
        self._turns = turns
        self.begun: list[Attempt] = []

    def send(self, send: TaskSend) -> None:
        """Split tasks into arrays, record the arrays, and submit all by one call."""
        most = min(self._most, send.array_tasks or self._most)
        self.begin([self._intended(part) for part in _parts(send, most)])

    def _intended(self, part: TaskSend) -> Array | None:
        now = self._clock.now()
        return self._campaigns.intend(part.campaign, part.cluster, part.tasks, now, part.kept_off)

    def begin(self, arrays: Iterable[Array | None]) -> None:
        """Submit new arrays; entries that are None are skipped."""
        new = [array for array in arrays if array]
        for array in new:
            self.begun += self._campaigns.pending(array)
        self._submit(new)

    def resume(self, arrays: Iterable[Array]) -> None:
        """Submit or release arrays whose submission was interrupted.

        An array without unfinished attempts is marked as released: later attempts replaced its
        tasks.
        """
        begun: dict[tuple[int, str, bool], list[Array]] = {}
        for array in arrays:
            if array.state is ArrayState.INTENDED:
                self._campaigns.is_repeated(array)
                if not self._campaigns.pending(array):
                    self._campaigns.array_is(array, ArrayState.RELEASED)
                    continue
                key = array.campaign, array.cluster, array.is_of_copies
                begun.setdefault(key, []).append(array)
            else:
                self._settle(array, self._released(array))
        for group in begun.values():
            for few in [[array] for array in group] if group[0].is_of_copies else [group]:
                self._submit(few)

    def _released(self, array: Array) -> SentTask:
        try:
            self._turns.take(array, lambda: self._acts.release(array))
        except GridbridgeError as error:
            return SentTask(job_id=array.job_id, error=error)
        return SentTask(job_id=array.job_id)

    def _submit(self, arrays: list[Array]) -> None:
        """Submit arrays of one campaign to one cluster; failed ones wait for the next cycle."""
        if not arrays:
            return
        intended = tuple((array, self._campaigns.pending(array)) for array in arrays)
        try:
            sent = self._turns.take(arrays[0], lambda: self._acts.send(intended), _has_failed)
        except GridbridgeError as error:
            sent = (SentTask(error=error),) * len(arrays)
        for array, sent_task in zip(arrays, sent, strict=False):
            self._settle(array, sent_task)


def _has_failed(sent: Iterable[SentTask]) -> bool:
    return any(sent_task.error and not isinstance(sent_task.error, ANSWERS) for sent_task in sent)


def _parts(send: TaskSend, most: int) -> Iterator[TaskSend]:
    """Split a batch of tasks into batches of at most `most` tasks."""
    for begin in range(0, send.tasks, most):
        end = min(begin + most, send.tasks)
        kept_off = tuple(_between(send.kept_off, begin, end))
        yield replace(send, tasks=end - begin, kept_off=kept_off)


def _between(kinds: Iterable[KeptOff], begin: int, end: int) -> Iterator[KeptOff]:
    """Return how many tasks of each kind lie between two indices of the concatenated kinds."""
    first = 0
    for kind in kinds:
        tasks = min(end, first + kind.tasks) - max(begin, first)
        first += kind.tasks
        if tasks > 0:
            yield replace(kind, tasks=tasks)
