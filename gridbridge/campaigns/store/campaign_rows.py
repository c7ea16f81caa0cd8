"""The campaigns, their arrays, and every attempt to run a task."""

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    and_,
    delete,
    insert,
    update,
)

from gridbridge.campaigns.store import campaign_queries as queries
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    Campaign,
    CampaignState,
    TaskOutcome,
    WaitingTasks,
)
from gridbridge.model.campaigns.cycle_plan import KeptOff
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.state.database.campaign_tables import (
    ARRAYS,
    ATTEMPTS,
    CAMPAIGNS,
    DONE,
    WAITING,
    campaign_of,
    jdl_of,
    values_of,
)
from gridbridge.state.database.transaction import StateFile

AT_A_TIME = 500  # campaigns in one question


class CampaignRows:
    """What is kept of campaigns."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    @property
    def database(self) -> StateFile:
        """The state file that they are in."""
        return self._database

    def add(self, campaign: Campaign, token: str) -> int:
        """Keep a new campaign, all of its tasks waiting, and return its number."""
        number = campaign.number or self.last_number() + 1
        with self._database.transaction():
            values = values_of(campaign) | {"token": token, "number": number}
            self._database.execute(insert(CAMPAIGNS), values)
            self.wait_again(number, WaitingTasks(first=0, last=campaign.tasks - 1))
        return number

    def last_number(self) -> int:
        """Return the highest number of a campaign; 0 where there is none."""
        return int(self._database.rows(queries.LAST_NUMBER)[0]["number"] or 0)

    def find(self, number: int) -> Campaign | None:
        """Look a campaign up."""
        return next(iter(self._select(queries.ONE, number=number)), None)

    def of_token(self, token: str) -> Campaign | None:
        """Look a campaign up by the name of the file that brought it."""
        return next(iter(self._select(queries.BY_TOKEN, token=token)), None)

    def all(self) -> tuple[Campaign, ...]:
        """Return every campaign by number."""
        return self._select(queries.BY_NUMBER)

    def outlined(self, outlines: MutableMapping[int, Jdl]) -> tuple[Campaign, ...]:
        """Return every campaign by number, with the outline of its JDL.

        Those that are known, by campaign, are not read: a JDL never changes. Others are added.
        """
        rows = [dict(row) for row in self._database.rows(queries.BRIEFLY)]
        new = [row["number"] for row in rows if row["number"] not in outlines]
        for begin in range(0, len(new), AT_A_TIME):
            numbers = new[begin : begin + AT_A_TIME]
            for row in self._database.rows(queries.JDLS, numbers=numbers):
                outlines[row["number"]] = jdl_of(row["jdl"]).outline
        return tuple(campaign_of(row | {"jdl": outlines[row["number"]]}) for row in rows)

    def unfinished(self) -> tuple[Campaign, ...]:
        """Return the campaigns of which a task may be sent or live, or an epilogue, by number."""
        return self._select(queries.UNFINISHED)

    def is_unfinished(self, number: int) -> bool:
        """Say whether a campaign is one of those."""
        return bool(self._database.rows(queries.ONE_UNFINISHED, number=number))

    def waiting(self) -> dict[int, int]:
        """Return how many tasks of each campaign wait to be sent; none of which are left out."""
        return {
            row["campaign"]: int(row["tasks"])
            for row in self._database.rows(queries.WAITING_COUNTS)
        }

    def kept_off(self) -> dict[int, tuple[KeptOff, ...]]:
        """Return of each campaign how many of the waiting tasks do not go to which clusters."""
        by_campaign: dict[int, tuple[KeptOff, ...]] = {}
        for row in self._database.rows(queries.KEPT_OFF):
            avoid, never = tuple(row["avoid"].split()), tuple(row["never"].split())
            kind = KeptOff(tasks=int(row["tasks"]), avoid=avoid, never=never)
            by_campaign[row["campaign"]] = (*by_campaign.get(row["campaign"], ()), kind)
        return by_campaign

    def open_arrays(self) -> tuple[Array, ...]:
        """Return the arrays of which a task may live, oldest first in each campaign."""
        return self._arrays(queries.OPEN_ARRAYS)

    def arrays_of(self, campaign: int) -> tuple[Array, ...]:
        """Return every array of a campaign."""
        return self._arrays(queries.OF_CAMPAIGN, campaign=campaign)

    def waiting_of(self, campaign: int) -> tuple[WaitingTasks, ...]:
        """Return the tasks of a campaign that wait to be sent, the most urgent first."""
        rows = self._database.rows(queries.NEXT_WAITING, campaign=campaign)
        return tuple(_waiting(dict(row)) for row in rows)

    def durations(self, campaign: int) -> dict[str, tuple[float, ...]]:
        """Return how many seconds the last tasks took that ended, by cluster."""
        durations: dict[str, list[float]] = {}
        for row in self._database.rows(queries.DURATIONS, campaign=campaign):
            durations.setdefault(row["cluster"], []).append(float(row["wallclock_s"]))
        return {cluster: tuple(times) for cluster, times in durations.items()}

    def pending(self, array: Array) -> tuple[Attempt, ...]:
        """Return the attempts of an array whose ends are not known, by place."""
        of = {"of_campaign": array.campaign, "of_array": array.number}
        rows = map(dict, self._database.rows(queries.PENDING, **of))
        return tuple(Attempt(**row | {"outcome": TaskOutcome(row["outcome"])}) for row in rows)

    def intend(
        self,
        campaign: int,
        cluster: str,
        tasks: int,
        at: datetime,
        kept_off: Sequence[KeptOff] = (),
    ) -> Array | None:
        """Take tasks that wait into a new array; None where none does.

        So many of them keep off clusters as is told, and the others off none.
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
    ) -> Array:
        """Keep a new array of these attempts of tasks, in a transaction."""
        rows = self._database.rows(queries.LAST_ARRAY, campaign=campaign)
        array = Array(
            campaign=campaign,
            number=(rows[0]["number"] or 0) + 1,
            cluster=cluster,
            state=ArrayState.INTENDED,
            size=len(attempts),
            intended_at=at,
            copies_beyond_s=copies_beyond_s,
        )
        self._database.execute(insert(ARRAYS), asdict(array))
        self._database.execute(insert(ATTEMPTS), _attempts_of(array, attempts))
        return array

    def array_is(self, array: Array, state: ArrayState, job_id: int = 0) -> None:
        """Note how far an array has come, and its id once that is known."""
        values = {"state": state} | ({"job_id": job_id} if job_id else {})
        of = and_(ARRAYS.c.campaign == array.campaign, ARRAYS.c.number == array.number)
        self._database.execute(update(ARRAYS).where(of).values(**values))

    def is_repeated(self, array: Array) -> None:
        """Note that an array may have been submitted before."""
        of = and_(ARRAYS.c.campaign == array.campaign, ARRAYS.c.number == array.number)
        self._database.execute(update(ARRAYS).where(of).values(is_repeated=True))

    def ended(self, attempts: Iterable[Attempt]) -> None:
        """Note what attempts came to."""
        rows = [
            {f"of_{key}": value for key, value in asdict(attempt).items()} for attempt in attempts
        ]
        if rows:
            self._database.execute(queries.ENDED, rows)

    def wait_again(self, campaign: int, *waiting: WaitingTasks) -> None:
        """Let tasks wait to be sent."""
        if rows := [_waiting_row(campaign, batch) for batch in waiting]:
            self._database.execute(insert(WAITING), rows)

    def wait_no_longer(self, campaign: int, waiting: Iterable[WaitingTasks]) -> None:
        """Send none of these tasks."""
        if rows := [{"of_campaign": campaign, "of_first": batch.first} for batch in waiting]:
            self._database.execute(queries.TAKEN, rows)

    def drop_waiting(self, campaign: int) -> None:
        """Send none of a campaign's waiting tasks any more."""
        self._database.execute(delete(WAITING).where(WAITING.c.campaign == campaign))

    def count(self, campaign: int, ended: int, failed: int, cancelled: int = 0) -> None:
        """Count tasks that ended for good, and of those the failed and the cancelled ones."""
        values = {
            "ended": CAMPAIGNS.c.ended + ended,
            "failed": CAMPAIGNS.c.failed + failed,
            "cancelled": CAMPAIGNS.c.cancelled + cancelled,
        }
        self._database.execute(
            update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values)
        )

    def is_now(self, campaign: int, state: CampaignState, ended_at: datetime | None = None) -> None:
        """Note where a campaign is, and when it ended; root does not know of that end yet."""
        values = {"state": state, "ended_at": ended_at, "is_end_noted": False}
        self._database.execute(
            update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values)
        )

    def has_done(self, token: str, campaign: int) -> bool:
        """Say whether a request was done about a campaign."""
        return bool(self._database.rows(queries.IS_DONE, token=token, campaign=campaign))

    def note_done(self, token: str, campaign: int, at: datetime) -> None:
        """Note that, in the transaction that does it."""
        values = {"token": token, "campaign": campaign, "done_at": at}
        self._database.execute(insert(DONE), values)

    def forget_done(self, before: datetime) -> None:
        """Forget the requests that were done long ago."""
        self._database.execute(delete(DONE).where(DONE.c.done_at < before))

    def unnoted(self, after: int, most: int) -> tuple[int, ...]:
        """Return some campaigns that have ended, whose ends root's ledger may not know.

        They come in the order of their numbers, behind the one that is given.
        """
        query = queries.UNNOTED.where(CAMPAIGNS.c.number > after).limit(most)
        return tuple(row["number"] for row in self._database.rows(query))

    def end_is_noted(self, campaign: int, *, is_noted: bool = True) -> None:
        """Note whether root's ledger knows a campaign's end."""
        values = {"is_end_noted": is_noted}
        self._database.execute(
            update(CAMPAIGNS).where(CAMPAIGNS.c.number == campaign).values(**values)
        )

    def ended_before(self, moment: datetime) -> tuple[int, ...]:
        """Return the campaigns that ended, or were cancelled, before a time, the oldest end first.

        Those that are purged are not among them.
        """
        return tuple(
            row["number"] for row in self._database.rows(queries.ENDED_BEFORE, moment=moment)
        )

    def _take(
        self, campaign: int, tasks: int, kept_off: Sequence[KeptOff]
    ) -> list[tuple[int, int]]:
        """Take so many waiting tasks off, of each kind the most urgent first.

        Return each with its attempt, the most urgent first.
        """
        unrestricted = KeptOff(tasks=tasks - sum(kind.tasks for kind in kept_off))
        entries = [
            entry for kind in (unrestricted, *kept_off) for entry in self._take_of(campaign, kind)
        ]
        return [(task, attempt) for _, task, attempt in sorted(entries)]

    def _take_of(self, campaign: int, kind: KeptOff) -> list[tuple[int, int, int]]:
        attempts: list[tuple[int, int, int]] = []
        query = queries.NEXT_WAITING.where(_is_of(kind)).limit(kind.tasks)
        remainders: list[WaitingTasks] = []
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
            self._database.execute(queries.TAKEN, consumed)
        self.wait_again(campaign, *remainders)
        return attempts

    def _arrays(self, query: Executable, **values: object) -> tuple[Array, ...]:
        rows = map(dict, self._database.rows(query, **values))
        return tuple(Array(**row | {"state": ArrayState(row["state"])}) for row in rows)

    def _select(self, query: Executable, **values: object) -> tuple[Campaign, ...]:
        return tuple(campaign_of(dict(row)) for row in self._database.rows(query, **values))


def _waiting_row(campaign: int, waiting: WaitingTasks) -> dict[str, Any]:
    names = {"avoid": _listed(waiting.avoid), "never": _listed(waiting.never)}
    return asdict(waiting) | {"campaign": campaign} | names


def _is_of(kind: KeptOff) -> ColumnElement[bool]:
    avoid, never = WAITING.c.avoid, WAITING.c.never
    return and_(avoid == _listed(kind.avoid), never == _listed(kind.never))


def _listed(clusters: Iterable[str]) -> str:
    """Write names with a blank around each, so that one can be looked for."""
    words = " ".join(clusters)
    return f" {words} " if words else ""


def _waiting(row: dict[str, Any]) -> WaitingTasks:
    return WaitingTasks(**row | {key: tuple(row[key].split()) for key in ("avoid", "never")})


def _attempts_of(array: Array, tasks: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the rows of an array's attempts; the first has the place 1."""
    of = {"campaign": array.campaign, "array": array.number, "outcome": TaskOutcome.PENDING}
    return [
        {**of, "task": task, "attempt": attempt, "place": index}
        for index, (task, attempt) in enumerate(tasks, start=1)
    ]
