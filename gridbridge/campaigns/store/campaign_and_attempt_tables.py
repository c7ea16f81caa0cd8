"""Tables of campaigns and of their arrays, attempts, unsent tasks and added tasks in the state file."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import asdict, fields
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Select, and_, bindparam, case, delete, func, insert, or_, select, update

from gridbridge.campaigns.store.campaign_statistics_rows import FORECASTS
from gridbridge.campaigns.store.shared_input_rows import SharedInputRows, ranges_without_tasks
from gridbridge.decisions.campaigns.tasks_sharing_inputs import MOST_OVERTAKING
from gridbridge.model.campaigns.campaign import (
    ALONE,
    AdditionalCampaignTasks,
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
    TaskGroupSize,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.campaign_cycle_plan import TaskCountByExclusions
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarry
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.task_index_and_attempt_texts import FIRST_PROLOGUE_TASK, split_into_groups
from gridbridge.model.campaigns.task_resource_usage import MeasuredTaskAttempt
from gridbridge.state.campaign_tables import ARRAYS, ATTEMPTS, CAMPAIGNS, DONE, IS_GOING, IS_OPEN, PARTS, WAITING
from gridbridge.state.state_file import StateFile

ADDED_COLUMNS = ("campaign", "task", "attempt", "array", "place", "outcome")
AT_A_TIME = 500  # at most this many campaigns in one query
_PART = select(*(PARTS.c[field.name] for field in fields(AdditionalCampaignTasks)))


class CampaignRows:
    def __init__(self, database: StateFile) -> None:
        self.database = database
        self._shared = SharedInputRows(database)

    def insert_campaign(self, campaign: Campaign, token: str) -> int:
        number = campaign.number or self.last_campaign_number() + 1
        with self.database.transaction():
            values = {field.name: getattr(campaign, field.name) for field in fields(Campaign)}
            self.database.execute(
                insert(CAMPAIGNS), values | {"token": token, "number": number, "name": campaign.jdl.name}
            )
            self.add_unsent_tasks(number, WaitingTaskRange(first=0, last=campaign.tasks - 1))
        return number

    def last_campaign_number(self) -> int:
        return int(self.database.rows(select(func.max(CAMPAIGNS.c.number).label("number")))[0]["number"] or 0)

    def find_campaign(self, number: int) -> Campaign | None:
        return next(iter(self.database.query_rows_as(Campaign, BY_NUMBER.where(CAMPAIGNS.c.number == number))), None)

    def find_campaign_by_file_token(self, token: str) -> Campaign | None:
        return next(iter(self.database.query_rows_as(Campaign, BY_NUMBER.where(CAMPAIGNS.c.token == token))), None)

    def all_campaigns(self) -> tuple[Campaign, ...]:
        """Return every campaign, ordered by number."""
        return self.database.query_rows_as(Campaign, BY_NUMBER)

    def query_campaigns_with_jdl_outlines(self, outlines: MutableMapping[int, Jdl]) -> tuple[Campaign, ...]:
        """Return all campaigns, ordered by number, with outlines of JDLs; `outlines` caches the outlines."""
        rows = self.database.rows(BRIEFLY)
        new = [row["number"] for row in rows if row["number"] not in outlines]
        for begin in range(0, len(new), AT_A_TIME):
            for row in self.database.rows(JDLS, numbers=new[begin : begin + AT_A_TIME]):
                outlines[row["number"]] = row["jdl"].jdl_without_shell_lines
        return tuple(Campaign(**row, jdl=outlines[row["number"]]) for row in rows)

    def unfinished_campaigns(self) -> tuple[Campaign, ...]:
        """Return campaigns that have not ended or still have arrays at clusters, ordered by number."""
        return self.database.query_rows_as(Campaign, BY_NUMBER.where(IS_UNFINISHED))

    def measure_jdls_of_person(self, uid: int) -> int:
        """Return the characters of the JDLs of a person's unfinished campaigns, as stored."""
        query = select(func.sum(func.length(CAMPAIGNS.c.jdl)).label("size")).where(CAMPAIGNS.c.uid == uid, IS_GOING)
        (row,) = self.database.rows(query)
        return int(row["size"] or 0)

    def is_campaign_unfinished(self, number: int) -> bool:
        return bool(self.database.rows(select(CAMPAIGNS.c.number).where(CAMPAIGNS.c.number == number, IS_UNFINISHED)))

    def count_unsent_tasks(self) -> dict[int, int]:
        """Return the number of unsent tasks of each campaign that has unsent tasks."""
        return self.count_unsent_and_awaiting_tasks()[0]

    def count_unsent_and_awaiting_tasks(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return, by campaign, how many tasks are unsent, and how many of them wait for tasks of the same number."""
        rows = self.database.rows(WAITING_COUNTS)
        unsent = {row["campaign"]: int(row["tasks"]) for row in rows}
        return unsent, {row["campaign"]: int(row["awaiting"]) for row in rows if row["awaiting"]}

    def count_tasks_by_exclusions(self) -> dict[int, tuple[TaskCountByExclusions, ...]]:
        """Return, for each campaign, how many unsent tasks avoid the same set of clusters."""
        by_campaign: dict[int, tuple[TaskCountByExclusions, ...]] = {}
        for row in self.database.rows(KEPT_OFF):
            avoid, never = tuple(row["avoid"].split()), tuple(row["never"].split())
            kind = TaskCountByExclusions(tasks=int(row["tasks"]), avoid=avoid, never=never)
            by_campaign[row["campaign"]] = (*by_campaign.get(row["campaign"], ()), kind)
        return by_campaign

    def query_open_arrays(self) -> tuple[CampaignArray, ...]:
        """Return arrays whose tasks may still wait or run at a cluster, the oldest first in each campaign."""
        return self.database.query_rows_as(
            CampaignArray, select(ARRAYS).where(IS_OPEN).order_by(ARRAYS.c.campaign, ARRAYS.c.number)
        )

    def arrays_of_campaign(self, campaign: int) -> tuple[CampaignArray, ...]:
        return self.database.query_rows_as(CampaignArray, select(ARRAYS).where(ARRAYS.c.campaign == campaign))

    def list_unsent_tasks(self, campaign: int) -> tuple[WaitingTaskRange, ...]:
        """Return the unsent tasks of a campaign, the most urgent first."""
        return tuple(waiting_range_of_row(dict(row)) for row in self.database.rows(NEXT_WAITING, campaign=campaign))

    def run_times_by_cluster(self, campaign: int) -> dict[str, tuple[float, ...]]:
        """Return run times in seconds by cluster, for up to 600 recently ended tasks of a campaign."""
        durations: dict[str, list[float]] = {}
        for row in self.database.rows(DURATIONS, campaign=campaign):
            durations.setdefault(row["cluster"], []).append(float(row["wallclock_s"]))
        return {cluster: tuple(times) for cluster, times in durations.items()}

    def unfinished_attempts(self, array: CampaignArray) -> tuple[TaskAttempt, ...]:
        """Return the unfinished attempts of an array, ordered by index and task."""
        return self.database.query_rows_as(TaskAttempt, PENDING, campaign=array.campaign, array=array.number)

    def create_array(
        self,
        campaign: int,
        cluster: str,
        tasks: int,
        at: datetime,
        kept_off: Sequence[TaskCountByExclusions] = (),
        checkpoint_s: int = 0,
        group: TaskGroupSize = ALONE,
        *,
        is_ordinary: bool = False,
        unshared_first: int | None = None,
    ) -> CampaignArray | None:
        """Move unsent tasks into a new array; return None if no task was moved.

        If input files must be carried to the cluster, the array first gets `unshared_first` tasks that share no file,
        then tasks that share files with each other. Otherwise `unshared_first` is None.
        """
        unrestricted = TaskCountByExclusions(tasks=tasks - sum(kind.tasks for kind in kept_off))
        with self.database.transaction():
            entries: list[tuple[int, int, int]] = []
            if unshared_first is not None and not self._shared.have_tasks_preferred_clusters(campaign):
                unshared_first = None
            for kind in (unrestricted, *kept_off):
                if unshared_first is None:
                    entries += self._take_unsent_tasks(campaign, kind)
                else:
                    entries += self._take_tasks_sharing_inputs(campaign, kind, cluster, unshared_first)
            entries.sort()
            attempts = [(task, attempt) for _, task, attempt in entries]
            if not attempts:
                return None
            return self.insert_array(
                campaign, cluster, attempts, at, checkpoint_s=checkpoint_s, group=group, is_ordinary=is_ordinary
            )

    def insert_array(
        self,
        campaign: int,
        cluster: str,
        attempts: list[tuple[int, int]],
        at: datetime,
        copies_beyond_s: int | None = None,
        checkpoint_s: int = 0,
        group: TaskGroupSize = ALONE,
        *,
        is_ordinary: bool = False,
    ) -> CampaignArray:
        """Insert a new array of (task, attempt) pairs in the caller's transaction."""
        last = select(func.max(ARRAYS.c.number).label("number")).where(ARRAYS.c.campaign == campaign)
        groups = split_into_groups(attempts, group.tasks)
        array = CampaignArray(
            campaign=campaign,
            number=(self.database.rows(last)[0]["number"] or 0) + 1,
            cluster=cluster,
            state=ArraySubmissionState.INTENDED,
            size=len(groups),
            intended_at=at,
            copies_beyond_s=copies_beyond_s,
            is_ordinary=is_ordinary,
            checkpoint_s=checkpoint_s,
            group_tasks=group.tasks,
            group_s=group.begin_s,
            group_wait_s=group.wait_s,
        )
        self.database.execute(insert(ARRAYS), asdict(array))
        of = {"campaign": campaign, "array": array.number, "outcome": TaskAttemptOutcome.PENDING}
        rows = [
            of | {"task": task, "attempt": attempt, "place": place}
            for place, of_job in enumerate(groups, 1)
            for task, attempt in of_job
        ]
        self.database.execute(insert(ATTEMPTS), rows)
        return array

    def add_tasks_to_jobs(
        self, campaign: int, array: int, tasks: Mapping[int, int]
    ) -> tuple[CampaignArray, tuple[TaskAttempt, ...]]:
        """Give unsent tasks to jobs of an array; `tasks` has their numbers by array index.

        Only first attempts that avoid no cluster are taken, and fewer tasks if too few of them wait.
        """
        with self.database.transaction():
            taken = self._take_unsent_tasks(campaign, TaskCountByExclusions(tasks=sum(tasks.values())), is_first=True)
            numbers = iter(sorted(task for _, task, _ in taken))
            attempts = tuple(
                TaskAttempt(campaign=campaign, task=task, attempt=1, array=array, place=index)
                for index, count in tasks.items()
                for task in islice(numbers, count)
            )
            rows = [{name: getattr(attempt, name) for name in ADDED_COLUMNS} for attempt in attempts]
            if rows:
                self.database.execute(insert(ATTEMPTS), rows)
            of = (ARRAYS.c.campaign == campaign, ARRAYS.c.number == array)
            self.database.execute(update(ARRAYS).where(*of).values(added_tasks=ARRAYS.c.added_tasks + len(attempts)))
            (stored_array,) = self.database.query_rows_as(CampaignArray, select(ARRAYS).where(*of))
        return stored_array, attempts

    def set_array_state(self, array: CampaignArray, state: ArraySubmissionState, job_id: int = 0) -> None:
        """Record an array's state, and its job id unless the id is 0."""
        self._update_array_row(array, state=state, **({"job_id": job_id} if job_id else {}))

    def record_possible_second_submission(self, array: CampaignArray) -> None:
        self._update_array_row(array, is_repeated=True)

    def set_number_of_added_tasks(self, array: CampaignArray) -> None:
        self._update_array_row(array, added_tasks=array.added_tasks)

    def record_attempt_ends(self, attempts: Iterable[TaskAttempt]) -> None:
        rows = [{f"of_{key}": value for key, value in asdict(attempt).items()} for attempt in attempts]
        if rows:
            self.database.execute(ENDED, rows)

    def record_measured_attempts(self, measured: Iterable[MeasuredTaskAttempt]) -> None:
        """Record the usage of attempts whose end was recorded before."""
        rows = [{f"of_{key}": value for key, value in asdict(attempt).items()} for attempt in measured]
        self.database.execute_for_each_row(MEASURED, rows)

    def add_unsent_tasks(self, campaign: int, *waiting: WaitingTaskRange) -> None:
        names = ("avoid", "never", "awaits", "never_later")
        rows = [
            asdict(batch)
            | {"campaign": campaign}
            | {name: _join_words_with_outer_blanks(map(str, getattr(batch, name))) for name in names}
            for batch in waiting
        ]
        if rows:
            self.database.execute(insert(WAITING), rows)

    def release_tasks_from_checkpoints(self, now: datetime) -> None:
        """Release tasks that have waited long enough for the cluster with their checkpoint, to begin anew elsewhere."""
        is_due = WAITING.c.holds_until <= now
        if self.database.rows(select(WAITING.c.first).where(is_due).limit(1)):  # an idle cycle writes nothing
            values = {"never": WAITING.c.never_later, "never_later": "", "holds_until": None}
            self.database.execute(update(WAITING).where(is_due).values(**values))

    def allow_clusters_of_carries(self, carries: Iterable[CheckpointCarry]) -> None:
        """Let unsent tasks go to the clusters to which their checkpoints may be carried."""
        for carry in carries:
            of = (WAITING.c.campaign == carry.campaign, WAITING.c.first == carry.task)
            for row in self.database.rows(select(WAITING.c.avoid, WAITING.c.never).where(*of)):
                clusters = {
                    key: _join_words_with_outer_blanks(name for name in row[key].split() if name != carry.cluster)
                    for key in ("avoid", "never")
                }
                self.database.execute(update(WAITING).where(*of).values(**clusters))

    def remove_unsent_tasks(self, campaign: int, waiting: Iterable[WaitingTaskRange]) -> None:
        if rows := [{"of_campaign": campaign, "of_first": batch.first} for batch in waiting]:
            self.database.execute(TAKEN, rows)

    def remove_all_unsent_tasks(self, campaign: int) -> None:
        self.database.execute(delete(WAITING).where(WAITING.c.campaign == campaign))

    def add_to_task_counts(self, campaign: int, ended_tasks: int, failed: int, cancelled: int = 0) -> None:
        counts = {"ended": ended_tasks, "failed": failed, "cancelled": cancelled}
        self._update_campaign_row(campaign, {name: CAMPAIGNS.c[name] + more for name, more in counts.items()})

    def set_campaign_state(self, campaign: int, state: CampaignState, ended_at: datetime | None = None) -> None:
        """Store a campaign's state and time of end; root's ledger gets the end in a later cycle."""
        self._update_campaign_row(campaign, {"state": state, "ended_at": ended_at, "is_end_noted": False})

    def has_executed_request(self, token: str, campaign: int) -> bool:
        return bool(
            self.database.rows(select(DONE.c.campaign).where(DONE.c.token == token, DONE.c.campaign == campaign))
        )

    def record_executed_request(self, token: str, campaign: int, at: datetime) -> None:
        """Record a request in the transaction that executes it."""
        self.database.execute(insert(DONE), {"token": token, "campaign": campaign, "done_at": at})

    def delete_old_request_records(self, before: datetime) -> None:
        self.database.execute(delete(DONE).where(DONE.c.done_at < before))

    def ended_campaigns_not_in_ledger(self, after: int, most: int) -> tuple[int, ...]:
        """Return up to `most` ended campaigns above number `after` whose end root's ledger lacks."""
        query = UNNOTED.where(CAMPAIGNS.c.number > after).limit(most)
        return tuple(row["number"] for row in self.database.rows(query))

    def record_ledger_has_campaign_end(self, campaign: int, *, is_noted: bool = True) -> None:
        """Record in the state file whether root's ledger of submitted tasks has a campaign's end."""
        self._update_campaign_row(campaign, {"is_end_noted": is_noted})

    def campaigns_ended_before(self, moment: datetime) -> tuple[int, ...]:
        """Return the unpurged campaigns that ended before a time, the oldest end first."""
        is_old = and_(CAMPAIGNS.c.ended_at < moment, CAMPAIGNS.c.state != CampaignState.PURGED)
        query = select(CAMPAIGNS.c.number).where(is_old).order_by(CAMPAIGNS.c.ended_at, CAMPAIGNS.c.number)
        return tuple(row["number"] for row in self.database.rows(query))

    def _update_campaign_row(self, campaign: int, values: Mapping[str, object]) -> None:
        self.database.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values))

    def _update_array_row(self, array: CampaignArray, **values: object) -> None:
        of = (ARRAYS.c.campaign == array.campaign, ARRAYS.c.number == array.number)
        self.database.execute(update(ARRAYS).where(*of).values(**values))

    def _take_tasks_sharing_inputs(
        self, campaign: int, kind: TaskCountByExclusions, cluster: str, unshared_first: int
    ) -> list[tuple[int, int, int]]:
        attempts: list[tuple[int, int, int]] = []
        query = _next_tasks_of_kind(kind).limit(MOST_OVERTAKING)
        while missing := kind.tasks - len(attempts):
            waiting = [waiting_range_of_row(dict(row)) for row in self.database.rows(query, campaign=campaign)]
            first = max(0, unshared_first - len(attempts))
            tasks = self._shared.choose_tasks_by_shared_input(campaign, cluster, waiting, missing, first)
            if not tasks:
                break
            attempts += self._take_chosen_tasks(campaign, waiting, tasks)
        return attempts

    def _take_chosen_tasks(
        self, campaign: int, waiting: Iterable[WaitingTaskRange], tasks: Set[int]
    ) -> list[tuple[int, int, int]]:
        touched = [(part, [*ranges_without_tasks(part, tasks)]) for part in waiting]
        touched = [(part, remainders) for part, remainders in touched if remainders != [part]]
        self.remove_unsent_tasks(campaign, (part for part, _ in touched))
        self.add_unsent_tasks(campaign, *(part for _, remainders in touched for part in remainders))
        ranges = [(part, range(part.first, part.last + 1)) for part, _ in touched]
        return [(-part.priority, task, part.attempt) for part, numbers in ranges for task in numbers if task in tasks]

    def _take_unsent_tasks(
        self, campaign: int, kind: TaskCountByExclusions, *, is_first: bool = False
    ) -> list[tuple[int, int, int]]:
        """Take the next tasks; with `is_first` only tasks that were never sent."""
        attempts: list[tuple[int, int, int]] = []
        query = _next_tasks_of_kind(kind).limit(kind.tasks)
        query = query.where(WAITING.c.attempt == 1) if is_first else query
        remainders: list[WaitingTaskRange] = []
        consumed: list[dict[str, int]] = []
        for row in self.database.rows(query, campaign=campaign):
            last = min(row["last"], row["first"] + kind.tasks - len(attempts) - 1)
            tasks = range(row["first"], last + 1)
            attempts += ((-row["priority"], task, row["attempt"]) for task in tasks)
            consumed.append({"of_campaign": campaign, "of_first": row["first"]})
            if last < row["last"]:
                remainders.append(waiting_range_of_row(dict(row) | {"first": last + 1}))
            if len(attempts) == kind.tasks:
                break
        if consumed:
            self.database.execute(TAKEN, consumed)
        self.add_unsent_tasks(campaign, *remainders)
        return attempts


def _next_tasks_of_kind(kind: TaskCountByExclusions) -> Select[Any]:
    is_of = (
        WAITING.c.avoid == _join_words_with_outer_blanks(kind.avoid),
        WAITING.c.never == _join_words_with_outer_blanks(kind.never),
    )
    return NEXT_WAITING.where(*is_of, WAITING.c.awaits == "")


def _join_words_with_outer_blanks(words: Iterable[str]) -> str:
    """Join words with blanks around each word, so that SQL can search for a word."""
    text = " ".join(words)
    return f" {text} " if text else ""


def waiting_range_of_row(row: dict[str, Any]) -> WaitingTaskRange:
    clusters = {key: tuple(row[key].split()) for key in ("avoid", "never", "never_later")}
    return WaitingTaskRange(**row | clusters | {"awaits": tuple(map(int, row["awaits"].split()))})


class AddedTaskRows:
    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def find_added_tasks_by_file_token(self, token: str) -> AdditionalCampaignTasks | None:
        return next(
            iter(self._database.query_rows_as(AdditionalCampaignTasks, _PART.where(PARTS.c.token == token))), None
        )

    def all_added_tasks(self) -> tuple[tuple[AdditionalCampaignTasks, int], ...]:
        """Return all added tasks, each with the uid of the campaign's owner."""
        query = _PART.add_columns(CAMPAIGNS.c.uid).join(CAMPAIGNS, CAMPAIGNS.c.number == PARTS.c.campaign)
        rows = (dict(row) for row in self._database.rows(query))
        return tuple((AdditionalCampaignTasks(**row), uid) for row in rows for uid in (row.pop("uid"),))

    def list_campaign_files_of_person(self, uid: int) -> tuple[tuple[int, int], ...]:
        """Return (campaign, part) of each file of a person's unpurged campaigns; part 0 is the first file."""
        parts = select(CAMPAIGNS.c.number, PARTS.c.number.label("part")).outerjoin(
            PARTS, CAMPAIGNS.c.number == PARTS.c.campaign
        )
        rows = self._database.rows(parts.where(CAMPAIGNS.c.uid == uid, CAMPAIGNS.c.state != CampaignState.PURGED))
        return tuple(dict.fromkeys((row["number"], part) for row in rows for part in (0, row["part"] or 0)))

    def last_part_number(self, campaign: int) -> int:
        query = select(func.max(PARTS.c.number).label("number")).where(PARTS.c.campaign == campaign)
        return int(self._database.rows(query)[0]["number"] or 0)

    def insert_added_tasks(self, campaign: Campaign, part: AdditionalCampaignTasks, token: str) -> None:
        """Store added tasks as unsent tasks, and delete the campaign's outdated forecast."""
        first, this = campaign.tasks, CAMPAIGNS.c.number == campaign.number
        with self._database.transaction():
            self._database.execute(insert(PARTS), asdict(part) | {"token": token})
            self._database.execute(update(CAMPAIGNS).where(this).values(tasks=CAMPAIGNS.c.tasks + part.tasks))
            self._campaigns.add_unsent_tasks(
                campaign.number, WaitingTaskRange(first=first, last=first + part.tasks - 1)
            )
            self._database.execute(delete(FORECASTS).where(FORECASTS.c.campaign == campaign.number))


BY_NUMBER = select(*(CAMPAIGNS.c[field.name] for field in fields(Campaign))).order_by(CAMPAIGNS.c.number)
BRIEFLY = select(*(column for column in BY_NUMBER.selected_columns if column.name != "jdl")).order_by(
    CAMPAIGNS.c.number
)
JDLS = select(CAMPAIGNS.c.number, CAMPAIGNS.c.jdl).where(CAMPAIGNS.c.number.in_(bindparam("numbers", expanding=True)))
PENDING = (
    select(ATTEMPTS)
    .where(
        ATTEMPTS.c.campaign == bindparam("campaign"),
        ATTEMPTS.c.array == bindparam("array"),
        ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING,
    )
    .order_by(ATTEMPTS.c.place, ATTEMPTS.c.task)
)
IS_UNFINISHED = or_(IS_GOING, CAMPAIGNS.c.number.in_(select(ARRAYS.c.campaign).where(IS_OPEN)))
DURATIONS = (
    select(ARRAYS.c.cluster, ATTEMPTS.c.wallclock_s)
    .join_from(ATTEMPTS, ARRAYS, and_(ATTEMPTS.c.campaign == ARRAYS.c.campaign, ATTEMPTS.c.array == ARRAYS.c.number))
    .where(
        ATTEMPTS.c.campaign == bindparam("campaign"),
        # `+ 0` makes SQLite read the last arrays first, instead of scanning the key's range
        ATTEMPTS.c.task + 0 < FIRST_PROLOGUE_TASK,
        ATTEMPTS.c.outcome.in_(
            (
                TaskAttemptOutcome.SUCCESS,
                TaskAttemptOutcome.PROGRAM_ERROR,
                TaskAttemptOutcome.SIGNAL,
                TaskAttemptOutcome.WALLTIME,
            )
        ),
        ATTEMPTS.c.wallclock_s.is_not(None),
    )
    .order_by(ATTEMPTS.c.array.desc())
    .limit(600)
)
ENDED = (
    update(ATTEMPTS)
    .where(*(ATTEMPTS.c[key] == bindparam(f"of_{key}") for key in ("campaign", "task", "attempt")))
    .values(
        {
            key: bindparam(f"of_{key}")
            for key in (
                "outcome",
                "exit_status",
                "wallclock_s",
                "max_rss_kb",
                "written_kb",
                "is_overrun",
                "has_progressed",
                "checkpoint_bytes",
            )
        }
    )
)
TASKS_OF_RANGE = WAITING.c.last - WAITING.c.first + 1
WAITING_COUNTS = select(
    WAITING.c.campaign,
    func.sum(TASKS_OF_RANGE).label("tasks"),
    func.sum(case((WAITING.c.awaits != "", TASKS_OF_RANGE), else_=0)).label("awaiting"),
).group_by(WAITING.c.campaign)
KEPT_OFF = (
    select(
        WAITING.c.campaign,
        WAITING.c.avoid,
        WAITING.c.never,
        func.sum(TASKS_OF_RANGE).label("tasks"),
    )
    .where(or_(WAITING.c.avoid != "", WAITING.c.never != ""))
    .group_by(WAITING.c.campaign, WAITING.c.avoid, WAITING.c.never)
    .order_by(WAITING.c.campaign, WAITING.c.avoid, WAITING.c.never)
)
NEXT_WAITING = (
    select(*(WAITING.c[field.name] for field in fields(WaitingTaskRange)))
    .where(WAITING.c.campaign == bindparam("campaign"))
    .order_by(WAITING.c.priority.desc(), WAITING.c.first)
)
TAKEN = delete(WAITING).where(WAITING.c.campaign == bindparam("of_campaign"), WAITING.c.first == bindparam("of_first"))
MEASURED = (
    update(ATTEMPTS)
    .where(*(ATTEMPTS.c[key] == bindparam(f"of_{key}") for key in ("campaign", "task", "attempt")))
    .values({key: bindparam(f"of_{key}") for key in ("max_rss_kb", "written_kb")})
)
UNNOTED = (
    select(CAMPAIGNS.c.number)
    .where(
        CAMPAIGNS.c.ended_at.is_not(None),
        CAMPAIGNS.c.state.in_((CampaignState.TERMINATED, CampaignState.CANCELLED)),
        ~CAMPAIGNS.c.is_end_noted,
    )
    .order_by(CAMPAIGNS.c.number)
)
