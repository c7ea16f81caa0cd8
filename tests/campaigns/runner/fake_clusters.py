"""Fake clusters, and a site whose plans act on them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import CampaignPlanExecutor
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionResult,
    Campaign,
    CampaignArray,
    RootLedgerArray,
    TaskAttempt,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from tests.builders.campaign_site import CampaignSite


class Grid:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.failing: dict[str, GridbridgeError] = {}
        self.ledger: tuple[RootLedgerArray, ...] = ()  # arrays in root's ledger
        self.takes = 9  # at most this many arrays are accepted in one call

    def submit_arrays(
        self, arrays: tuple[tuple[CampaignArray, tuple[TaskAttempt, ...]], ...]
    ) -> tuple[ArraySubmissionResult, ...]:
        return tuple(self._send(*pair) for pair in arrays[: self.takes])

    def _send(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> ArraySubmissionResult:
        tasks = ",".join(f"{attempt.task}:{attempt.attempt}" for attempt in attempts)
        job_id = 0
        try:
            self._tell(f"submit {array.number} {array.cluster} {tasks}")
            job_id = 70 + array.number
            self._tell(f"release {array.number} {job_id}")
        except GridbridgeError as error:
            return ArraySubmissionResult(job_id=job_id, error=error)
        return ArraySubmissionResult(job_id=job_id)

    def add_tasks_to_jobs(self, array: CampaignArray, attempts: tuple[TaskAttempt, ...]) -> None:
        self._tell(f"add {array.number} {' '.join(f'{attempt.place}={attempt.task}' for attempt in attempts)}")

    def release_array(self, array: CampaignArray) -> None:
        self._tell(f"release {array.number} {array.job_id}")

    def delete_array(self, array: CampaignArray) -> int:
        self._tell(f"delete {array.number} {array.job_id}")
        return next((entry.job_id for entry in self.ledger if entry.number == array.number), 0)

    def delete_array_tasks(self, array: CampaignArray, places: tuple[range, ...]) -> None:
        self._tell(f"delete_places {array.number} {places[0][0]}")

    def close_campaign_in_root_ledger(self, campaign: int) -> None:
        self._tell(f"end {campaign}")

    def list_root_ledger_arrays(self, campaign: int) -> tuple[RootLedgerArray, ...]:
        del campaign
        return self.ledger

    def submissions(self) -> list[str]:
        return [told for told in self.told if told.startswith("submit")]

    def _tell(self, what: str) -> None:
        self.told.append(what)
        if trouble := self.failing.get(what.partition(" ")[0]):
            raise trouble


CARRIED = b'{"missing": {}, "copied_bytes": 4000000, "took_s": 2, "next_task_bytes": 1000000, "absent": []}\n'


class StartedProgram:
    """A program that ends once `result` is set."""

    def __init__(self) -> None:
        self.result: CompletedProgram | None = None

    def result_if_ended(self) -> CompletedProgram | None:
        return self.result


class StartedReadings:
    """Programs that read values of (campaign, cluster, what)."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, tuple[tuple[int, int], ...]]] = []
        self.programs: list[StartedProgram] = []
        self.trouble: GridbridgeError | None = None

    def start(self, campaign: int, cluster: str, numbers: Iterable[tuple[int, int]]) -> Any:
        self.told.append((campaign, cluster, tuple(numbers)))
        if self.trouble:
            raise self.trouble
        self.programs.append(StartedProgram())
        return self.programs[-1]

    def end(self, stdout: bytes, status: int = 0) -> None:
        """End the program that was started last."""
        self.programs[-1].result = CompletedProgram((), status, stdout, b"no route")


class CarryingGrid(Grid):
    """A grid to which and from which files of tasks are carried."""

    tasks_without_outputs = staticmethod(array_commands_as_owner.tasks_without_outputs)
    timed_input_carry = staticmethod(array_commands_as_owner.timed_input_carry)

    def __init__(self) -> None:
        super().__init__()
        self.carries: list[StartedProgram] = []

    def start_input_carry(
        self, array: CampaignArray, attempts: tuple[TaskAttempt, ...], at_cluster: tuple[TaskAttempt, ...]
    ) -> StartedProgram:
        here = f" with outputs of {[attempt.task for attempt in at_cluster]} there" if at_cluster else ""
        return self._start(f"carry {array.number} {[attempt.task for attempt in attempts]}{here}")

    def start_input_removal(self, campaign: int, cluster: str) -> StartedProgram:
        return self._start(f"remove {campaign} {cluster}")

    def start_output_carry(self, campaign: int, cluster: str, attempts: Iterable[tuple[int, int]]) -> StartedProgram:
        return self._start(f"bring {campaign} {cluster} {[task for task, _ in attempts]}")

    def start_checkpoint_carry(
        self, campaign: int, source: str, cluster: str, attempts: Iterable[tuple[int, int]]
    ) -> StartedProgram:
        return self._start(f"save {campaign} {source} {cluster} {[*attempts]}")

    def start_checkpoint_removal(
        self, campaign: int, cluster: str, attempts: Iterable[tuple[int, int]]
    ) -> StartedProgram:
        return self._start(f"drop {campaign} {cluster} {[*attempts]}")

    def end_carry(self, status: int = 0, stdout: bytes = CARRIED, stderr: bytes = b"") -> None:
        """End the program that was started last."""
        self.carries[-1].result = CompletedProgram((), status, stdout, stderr)

    def _start(self, what: str) -> StartedProgram:
        self._tell(what)
        self.carries.append(StartedProgram())
        return self.carries[-1]


class GridSite(CampaignSite):
    def __init__(self, folder: Path, *campaigns: Campaign, grid: Any = None, clock: Clock | None = None) -> None:
        super().__init__(folder, *campaigns)
        self.grid = grid or Grid()
        self.do = self.executor(clock).execute_plan

    def executor(self, clock: Clock | None = None, **other: Any) -> CampaignPlanExecutor:
        learnt, failures = CampaignStatisticsRecorder(self.database), CampaignFailuresSection()
        return CampaignPlanExecutor(self.database, learnt, clock or Clock(), failures, self.grid, **other)
