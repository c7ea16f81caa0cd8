"""Tables of campaigns and of their arrays, attempts, unsent tasks and added tasks in the state file."""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Executable, and_, bindparam, delete, exists, func, insert, or_, select, update

from gridbridge.campaigns.store.campaign_statistics_rows import FORECASTS
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
    TasksAddedToCampaign,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.cycle_plan import TaskCountByExclusions
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.task_index_and_attempt_texts import FIRST_PROLOGUE_TASK
from gridbridge.state.campaign_tables import (
    ARRAY,
    ARRAYS,
    ATTEMPTS,
    CAMPAIGNS,
    DONE,
    IS_GOING,
    IS_OPEN,
    PARTS,
    WAITING,
    campaign_from_row,
    campaign_to_row,
    jdl_from_json,
)
from gridbridge.state.state_file import StateFile

AT_A_TIME = 500  # at most this many campaigns in one query
_BY_TOKEN = select(*(PARTS.c[field.name] for field in fields(TasksAddedToCampaign))).where(
    PARTS.c.token == bindparam("token")
)
_ALL = select(*(PARTS.c[field.name] for field in fields(TasksAddedToCampaign)), CAMPAIGNS.c.uid).join(
    CAMPAIGNS, CAMPAIGNS.c.number == PARTS.c.campaign
)
_OF_PERSON = (
    select(CAMPAIGNS.c.number, PARTS.c.number.label("part"))
    .outerjoin(PARTS, CAMPAIGNS.c.number == PARTS.c.campaign)
    .where(CAMPAIGNS.c.uid == bindparam("uid"), CAMPAIGNS.c.state != CampaignState.PURGED)
)
_LAST_PART = select(func.max(PARTS.c.number).label("number")).where(PARTS.c.campaign == bindparam("campaign"))


class CampaignRows:
    """Reads and writes campaigns, arrays, attempts and unsent tasks in the state file."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    @property
    def database(self) -> StateFile:
        """The state file that holds the campaigns."""
        return self._database

    def add(self, campaign: Campaign, token: str) -> int:
        """Insert a new campaign, all of whose tasks are unsent; return the campaign's number."""
        number = campaign.number or self.last_number() + 1
        with self._database.transaction():
            values = campaign_to_row(campaign) | {"token": token, "number": number}
            self._database.execute(insert(CAMPAIGNS), values)
            self.wait_again(number, WaitingTaskRange(first=0, last=campaign.tasks - 1))
        return number

    def last_number(self) -> int:
        """Return the highest campaign number; 0 if there is no campaign."""
        return int(self._database.rows(LAST_NUMBER)[0]["number"] or 0)

    def find(self, number: int) -> Campaign | None:
        """Return the campaign with this number; None if the campaign does not exist."""
        return next(iter(self._select(ONE, number=number)), None)

    def of_token(self, token: str) -> Campaign | None:
        """Return the campaign whose file has this token; None if the campaign does not exist."""
        return next(iter(self._select(BY_TOKEN, token=token)), None)

    def all(self) -> tuple[Campaign, ...]:
        """Return every campaign, ordered by number."""
        return self._select(BY_NUMBER)

    def outlined(self, outlines: MutableMapping[int, Jdl]) -> tuple[Campaign, ...]:
        """Return every campaign, ordered by number, with an outline in place of the full JDL.

        `outlines` is a cache by campaign number, which this call fills. A JDL never changes.
        """
        rows = [dict(row) for row in self._database.rows(BRIEFLY)]
        new = [row["number"] for row in rows if row["number"] not in outlines]
        for begin in range(0, len(new), AT_A_TIME):
            numbers = new[begin : begin + AT_A_TIME]
            for row in self._database.rows(JDLS, numbers=numbers):
                outlines[row["number"]] = jdl_from_json(row["jdl"]).outline
        return tuple(campaign_from_row(row | {"jdl": outlines[row["number"]]}) for row in rows)

    def unfinished(self) -> tuple[Campaign, ...]:
        """Return campaigns that go on or still have arrays at clusters, ordered by number."""
        return self._select(UNFINISHED)

    def is_unfinished(self, number: int) -> bool:
        """Return whether a campaign goes on or still has arrays at clusters."""
        return bool(self._database.rows(ONE_UNFINISHED, number=number))

    def waiting(self) -> dict[int, int]:
        """Return the number of unsent tasks of each campaign that has unsent tasks."""
        return {row["campaign"]: int(row["tasks"]) for row in self._database.rows(WAITING_COUNTS)}

    def kept_off(self) -> dict[int, tuple[TaskCountByExclusions, ...]]:
        """Return, by campaign, how many unsent tasks avoid which clusters."""
        by_campaign: dict[int, tuple[TaskCountByExclusions, ...]] = {}
        for row in self._database.rows(KEPT_OFF):
            avoid, never = tuple(row["avoid"].split()), tuple(row["never"].split())
            kind = TaskCountByExclusions(tasks=int(row["tasks"]), avoid=avoid, never=never)
            by_campaign[row["campaign"]] = (*by_campaign.get(row["campaign"], ()), kind)
        return by_campaign

    def open_arrays(self) -> tuple[CampaignArray, ...]:
        """Return arrays whose tasks may still wait or run at a cluster, the oldest first in each campaign."""
        return self._arrays(OPEN_ARRAYS)

    def arrays_of(self, campaign: int) -> tuple[CampaignArray, ...]:
        """Return every array of a campaign."""
        return self._arrays(OF_CAMPAIGN, campaign=campaign)

    def waiting_of(self, campaign: int) -> tuple[WaitingTaskRange, ...]:
        """Return the unsent tasks of a campaign, the most urgent first."""
        rows = self._database.rows(NEXT_WAITING, campaign=campaign)
        return tuple(_waiting(dict(row)) for row in rows)

    def durations(self, campaign: int) -> dict[str, tuple[float, ...]]:
        """Return the run times in seconds of up to 600 recently ended tasks of a campaign, by cluster."""
        durations: dict[str, list[float]] = {}
        for row in self._database.rows(DURATIONS, campaign=campaign):
            durations.setdefault(row["cluster"], []).append(float(row["wallclock_s"]))
        return {cluster: tuple(times) for cluster, times in durations.items()}

    def pending(self, array: CampaignArray) -> tuple[TaskAttempt, ...]:
        """Return the unfinished attempts of an array, ordered by index."""
        of = {"of_campaign": array.campaign, "of_array": array.number}
        rows = map(dict, self._database.rows(PENDING, **of))
        return tuple(TaskAttempt(**row | {"outcome": TaskAttemptOutcome(row["outcome"])}) for row in rows)

    def intend(
        self, campaign: int, cluster: str, tasks: int, at: datetime, kept_off: Sequence[TaskCountByExclusions] = ()
    ) -> CampaignArray | None:
        """Move unsent tasks of a campaign into a new array; return None if the campaign has no unsent task.

        `kept_off` has the number of tasks for each set of avoided clusters; the remaining tasks avoid no cluster.
        """
        with self._database.transaction():
            attempts = self._take(campaign, tasks, kept_off)
            return self.add_array(campaign, cluster, attempts, at) if attempts else None

    def add_array(
        self,
        campaign: int,
        cluster: str,
        attempts: list[tuple[int, int]],
        at: datetime,
        copies_beyond_s: int | None = None,
    ) -> CampaignArray:
        """Insert a new array of (task, attempt) pairs; the caller has begun a transaction."""
        rows = self._database.rows(LAST_ARRAY, campaign=campaign)
        array = CampaignArray(
            campaign=campaign,
            number=(rows[0]["number"] or 0) + 1,
            cluster=cluster,
            state=ArraySubmissionState.INTENDED,
            size=len(attempts),
            intended_at=at,
            copies_beyond_s=copies_beyond_s,
        )
        self._database.execute(insert(ARRAYS), asdict(array))
        self._database.execute(insert(ATTEMPTS), _attempts_of(array, attempts))
        return array

    def array_is(self, array: CampaignArray, state: ArraySubmissionState, job_id: int = 0) -> None:
        """Record an array's state, and the array's job id if the id is known."""
        values = {"state": state} | ({"job_id": job_id} if job_id else {})
        of = and_(ARRAYS.c.campaign == array.campaign, ARRAYS.c.number == array.number)
        self._database.execute(update(ARRAYS).where(of).values(**values))

    def is_repeated(self, array: CampaignArray) -> None:
        """Record that an array may have been submitted twice."""
        of = and_(ARRAYS.c.campaign == array.campaign, ARRAYS.c.number == array.number)
        self._database.execute(update(ARRAYS).where(of).values(is_repeated=True))

    def ended(self, attempts: Iterable[TaskAttempt]) -> None:
        """Record the outcomes of ended attempts."""
        rows = [{f"of_{key}": value for key, value in asdict(attempt).items()} for attempt in attempts]
        if rows:
            self._database.execute(ENDED, rows)

    def wait_again(self, campaign: int, *waiting: WaitingTaskRange) -> None:
        """Add task ranges to the unsent tasks of a campaign."""
        if rows := [_waiting_row(campaign, batch) for batch in waiting]:
            self._database.execute(insert(WAITING), rows)

    def wait_no_longer(self, campaign: int, waiting: Iterable[WaitingTaskRange]) -> None:
        """Remove task ranges from the unsent tasks of a campaign."""
        if rows := [{"of_campaign": campaign, "of_first": batch.first} for batch in waiting]:
            self._database.execute(TAKEN, rows)

    def drop_waiting(self, campaign: int) -> None:
        """Remove all unsent tasks of a campaign."""
        self._database.execute(delete(WAITING).where(WAITING.c.campaign == campaign))

    def count(self, campaign: int, ended: int, failed: int, cancelled: int = 0) -> None:
        """Add to a campaign's counters of ended, failed and cancelled tasks."""
        values = {
            "ended": CAMPAIGNS.c.ended + ended,
            "failed": CAMPAIGNS.c.failed + failed,
            "cancelled": CAMPAIGNS.c.cancelled + cancelled,
        }
        self._database.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values))

    def is_now(self, campaign: int, state: CampaignState, ended_at: datetime | None = None) -> None:
        """Store a campaign's state and time of end; the end is recorded in root's ledger later."""
        values = {"state": state, "ended_at": ended_at, "is_end_noted": False}
        self._database.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values))

    def has_done(self, token: str, campaign: int) -> bool:
        """Return whether a request was already executed for a campaign."""
        return bool(self._database.rows(IS_DONE, token=token, campaign=campaign))

    def note_done(self, token: str, campaign: int, at: datetime) -> None:
        """Record an executed request, in the transaction that executes it."""
        values = {"token": token, "campaign": campaign, "done_at": at}
        self._database.execute(insert(DONE), values)

    def forget_done(self, before: datetime) -> None:
        """Delete the records of requests executed before a time."""
        self._database.execute(delete(DONE).where(DONE.c.done_at < before))

    def unnoted(self, after: int, most: int) -> tuple[int, ...]:
        """Return ended campaigns that are still open in root's ledger of submitted tasks, ordered by number.

        Returns at most `most` campaigns, with numbers above `after`.
        """
        query = UNNOTED.where(CAMPAIGNS.c.number > after).limit(most)
        return tuple(row["number"] for row in self._database.rows(query))

    def end_is_noted(self, campaign: int, *, is_noted: bool = True) -> None:
        """Record whether root's ledger of submitted tasks has a campaign's end."""
        values = {"is_end_noted": is_noted}
        self._database.execute(update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values))

    def ended_before(self, moment: datetime) -> tuple[int, ...]:
        """Return campaigns that ended before a time and are not purged, the oldest end first."""
        return tuple(row["number"] for row in self._database.rows(ENDED_BEFORE, moment=moment))

    def _take(self, campaign: int, tasks: int, kept_off: Sequence[TaskCountByExclusions]) -> list[tuple[int, int]]:
        unrestricted = TaskCountByExclusions(tasks=tasks - sum(kind.tasks for kind in kept_off))
        entries = [entry for kind in (unrestricted, *kept_off) for entry in self._take_of(campaign, kind)]
        return [(task, attempt) for _, task, attempt in sorted(entries)]

    def _take_of(self, campaign: int, kind: TaskCountByExclusions) -> list[tuple[int, int, int]]:
        attempts: list[tuple[int, int, int]] = []
        query = NEXT_WAITING.where(_is_of(kind)).limit(kind.tasks)
        remainders: list[WaitingTaskRange] = []
        consumed: list[dict[str, int]] = []
        for row in self._database.rows(query, campaign=campaign):
            last = min(row["last"], row["first"] + kind.tasks - len(attempts) - 1)
            tasks = range(row["first"], last + 1)
            attempts += ((-row["priority"], task, row["attempt"]) for task in tasks)
            consumed.append({"of_campaign": campaign, "of_first": row["first"]})
            if last < row["last"]:
                remainders.append(_waiting(dict(row) | {"first": last + 1}))
            if len(attempts) == kind.tasks:
                break
        if consumed:
            self._database.execute(TAKEN, consumed)
        self.wait_again(campaign, *remainders)
        return attempts

    def _arrays(self, query: Executable, **values: object) -> tuple[CampaignArray, ...]:
        rows = map(dict, self._database.rows(query, **values))
        return tuple(CampaignArray(**row | {"state": ArraySubmissionState(row["state"])}) for row in rows)

    def _select(self, query: Executable, **values: object) -> tuple[Campaign, ...]:
        return tuple(campaign_from_row(dict(row)) for row in self._database.rows(query, **values))


def _waiting_row(campaign: int, waiting: WaitingTaskRange) -> dict[str, Any]:
    names = {"avoid": _listed(waiting.avoid), "never": _listed(waiting.never)}
    return asdict(waiting) | {"campaign": campaign} | names


def _is_of(kind: TaskCountByExclusions) -> ColumnElement[bool]:
    avoid, never = WAITING.c.avoid, WAITING.c.never
    return and_(avoid == _listed(kind.avoid), never == _listed(kind.never))


def _listed(clusters: Iterable[str]) -> str:
    """Join names with a blank around each, so that SQL can search for a name."""
    words = " ".join(clusters)
    return f" {words} " if words else ""


def _waiting(row: dict[str, Any]) -> WaitingTaskRange:
    return WaitingTaskRange(**row | {key: tuple(row[key].split()) for key in ("avoid", "never")})


def _attempts_of(array: CampaignArray, tasks: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    of = {"campaign": array.campaign, "array": array.number, "outcome": TaskAttemptOutcome.PENDING}
    return [
        {**of, "task": task, "attempt": attempt, "place": index} for index, (task, attempt) in enumerate(tasks, start=1)
    ]


class AddedTaskRows:
    """Reads and writes the tasks that owners added to their campaigns."""

    def __init__(self, database: StateFile, campaigns: CampaignRows) -> None:
        self._database = database
        self._campaigns = campaigns

    def of_token(self, token: str) -> TasksAddedToCampaign | None:
        """Return the added tasks of the file with this token; None if the file is unknown."""
        rows = self._database.rows(_BY_TOKEN, token=token)
        return next((TasksAddedToCampaign(**row) for row in map(dict, rows)), None)

    def all(self) -> tuple[tuple[TasksAddedToCampaign, int], ...]:
        """Return all added tasks, each entry with the uid of the campaign's owner."""
        rows = (dict(row) for row in self._database.rows(_ALL))
        return tuple((TasksAddedToCampaign(**row), uid) for row in rows for uid in (row.pop("uid"),))

    def of_person(self, uid: int) -> tuple[tuple[int, int], ...]:
        """Return the campaign number and part number of each of a person's campaign files.

        Purged campaigns are left out. A campaign's first file is part 0.
        """
        rows = self._database.rows(_OF_PERSON, uid=uid)
        parts = ((row["number"], part) for row in rows for part in (0, row["part"] or 0))
        return tuple(dict.fromkeys(parts))

    def last(self, campaign: int) -> int:
        """Return the part number of the last tasks added to a campaign; 0 if no task was added."""
        (row,) = self._database.rows(_LAST_PART, campaign=campaign)
        return int(row["number"] or 0)

    def add(self, campaign: Campaign, part: TasksAddedToCampaign, token: str) -> None:
        """Store added tasks as unsent tasks of a campaign, and delete the campaign's outdated forecast."""
        first, this = campaign.tasks, CAMPAIGNS.c.number == campaign.number
        with self._database.transaction():
            self._database.execute(insert(PARTS), asdict(part) | {"token": token})
            more = {"tasks": CAMPAIGNS.c.tasks + part.tasks}
            self._database.execute(update(CAMPAIGNS).where(this).values(**more))
            waiting = WaitingTaskRange(first=first, last=first + part.tasks - 1)
            self._campaigns.wait_again(campaign.number, waiting)
            of = FORECASTS.c.campaign == campaign.number
            self._database.execute(delete(FORECASTS).where(of))


ENDING = ("outcome", "exit_status", "wallclock_s", "is_overrun")  # columns set at an attempt's end

CAMPAIGN = tuple(CAMPAIGNS.c[field.name] for field in fields(Campaign))
ATTEMPT = tuple(ATTEMPTS.c)
BY_NUMBER = select(*CAMPAIGN).order_by(CAMPAIGNS.c.number)
BRIEFLY = select(*(column for column in CAMPAIGN if column.name != "jdl")).order_by(CAMPAIGNS.c.number)
JDLS = select(CAMPAIGNS.c.number, CAMPAIGNS.c.jdl).where(CAMPAIGNS.c.number.in_(bindparam("numbers", expanding=True)))
ONE = BY_NUMBER.where(CAMPAIGNS.c.number == bindparam("number"))
BY_TOKEN = BY_NUMBER.where(CAMPAIGNS.c.token == bindparam("token"))
UNFINISHED = BY_NUMBER.where(or_(IS_GOING, CAMPAIGNS.c.number.in_(select(ARRAYS.c.campaign).where(IS_OPEN))))
ONE_UNFINISHED = select(CAMPAIGNS.c.number).where(
    CAMPAIGNS.c.number == bindparam("number"),
    or_(IS_GOING, exists(select(ARRAYS.c.number).where(ARRAYS.c.campaign == bindparam("number"), IS_OPEN))),
)
OPEN_ARRAYS = select(*ARRAY).where(IS_OPEN).order_by(ARRAYS.c.campaign, ARRAYS.c.number)
OF_ARRAY = and_(ATTEMPTS.c.campaign == bindparam("of_campaign"), ATTEMPTS.c.array == bindparam("of_array"))
PENDING = select(*ATTEMPT).where(OF_ARRAY, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING).order_by(ATTEMPTS.c.place)
RAN = (
    TaskAttemptOutcome.SUCCESS,
    TaskAttemptOutcome.PROGRAM_ERROR,
    TaskAttemptOutcome.SIGNAL,
    TaskAttemptOutcome.WALLTIME,
)
DURATIONS = (
    select(ARRAYS.c.cluster, ATTEMPTS.c.wallclock_s)
    .join_from(ATTEMPTS, ARRAYS, and_(ATTEMPTS.c.campaign == ARRAYS.c.campaign, ATTEMPTS.c.array == ARRAYS.c.number))
    .where(
        ATTEMPTS.c.campaign == bindparam("campaign"),
        # `+ 0` keeps SQLite from scanning the key's range, so that the last arrays are read first
        ATTEMPTS.c.task + 0 < FIRST_PROLOGUE_TASK,
        ATTEMPTS.c.outcome.in_(RAN),
        ATTEMPTS.c.wallclock_s.is_not(None),
    )
    .order_by(ATTEMPTS.c.array.desc())
    .limit(600)
)
ENDED = (
    update(ATTEMPTS)
    .where(*(ATTEMPTS.c[key] == bindparam(f"of_{key}") for key in ("campaign", "task", "attempt")))
    .values({key: bindparam(f"of_{key}") for key in ENDING})
)
WAITING_COUNTS = select(WAITING.c.campaign, func.sum(WAITING.c.last - WAITING.c.first + 1).label("tasks")).group_by(
    WAITING.c.campaign
)
KEPT_OFF = (
    select(
        WAITING.c.campaign,
        WAITING.c.avoid,
        WAITING.c.never,
        func.sum(WAITING.c.last - WAITING.c.first + 1).label("tasks"),
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
OF_CAMPAIGN = select(*ARRAY).where(ARRAYS.c.campaign == bindparam("campaign"))
UNNOTED = (
    select(CAMPAIGNS.c.number)
    .where(
        CAMPAIGNS.c.ended_at.is_not(None),
        CAMPAIGNS.c.state.in_((CampaignState.TERMINATED, CampaignState.CANCELLED)),
        ~CAMPAIGNS.c.is_end_noted,
    )
    .order_by(CAMPAIGNS.c.number)
)
IS_DONE = select(DONE.c.campaign).where(DONE.c.token == bindparam("token"), DONE.c.campaign == bindparam("campaign"))
ENDED_BEFORE = (
    select(CAMPAIGNS.c.number)
    .where(CAMPAIGNS.c.ended_at < bindparam("moment"), CAMPAIGNS.c.state != CampaignState.PURGED)
    .order_by(CAMPAIGNS.c.ended_at, CAMPAIGNS.c.number)
)
LAST_NUMBER = select(func.max(CAMPAIGNS.c.number).label("number"))
LAST_ARRAY = select(func.max(ARRAYS.c.number).label("number")).where(ARRAYS.c.campaign == bindparam("campaign"))
