"""SQL tables of actions on replicas, of recent moves, and of the pause of rebalancing."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import BigInteger, Column, ColumnElement, Table, delete, select, update

from gridbridge.model.rebalance.datasets import ServiceReplicaAct
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import RecentRebalanceMoveTimes
from gridbridge.state.column_types import METADATA, PrintableTextColumn, UtcTimeColumn
from gridbridge.state.state_file import StateFile

CARRIED = Table(
    "carried_replicas",
    METADATA,
    Column("token", PrintableTextColumn, primary_key=True),
    Column("dataset", PrintableTextColumn, nullable=False),
    Column("target", PrintableTextColumn, nullable=False),
    Column("source", PrintableTextColumn, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("began_at", UtcTimeColumn, nullable=False),
    Column("ended_at", UtcTimeColumn),
    Column("why", PrintableTextColumn, nullable=False),
)

HOST, JOB, READ, LEAVING, QUIESCED = "host", "job", "read", "leaving", "quiesced"
UNREAD = "unread"  # kind of note: a dataset that was unreadable at the last check
MOVED = "moved"  # kind of note: a campaign's task with a deletion mark for a move
NOTES = Table(
    "rebalance_notes",
    METADATA,
    Column("kind", PrintableTextColumn, primary_key=True),
    Column("name", PrintableTextColumn, primary_key=True),
    Column("at", UtcTimeColumn, nullable=False),
)
Place = tuple[int, int, int]  # campaign, array, index in the array


class ReplicaActRows:
    """The service's actions on replicas; each action is recorded before its begin and at its end."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def all_acts(self) -> tuple[ServiceReplicaAct, ...]:
        """Return all recorded actions on replicas, the oldest first."""
        columns = (CARRIED.c[field.name] for field in fields(ServiceReplicaAct))
        rows = self._database.rows(select(*columns).order_by(CARRIED.c.began_at, CARRIED.c.token))
        return tuple(ServiceReplicaAct(**row) for row in rows)

    def record_act_begins(self, carried: Iterable[ServiceReplicaAct]) -> None:
        """Record actions on replicas before they begin; an interrupted action that continues is recorded again."""
        rows = [asdict(replica) for replica in carried]
        if rows:
            self._database.execute(self._database.upsert(CARRIED), rows)

    def record_act_end(self, token: str, at: datetime, why: str) -> None:
        """Record the end of an action on a replica; `why` is empty for success."""
        self._database.execute(update(CARRIED).where(CARRIED.c.token == token).values(ended_at=at, why=why))

    def delete_ended_acts(self, before: datetime) -> None:
        self._database.execute(delete(CARRIED).where(CARRIED.c.ended_at < before))  # a running action has ended_at NULL


class MoveAndVerificationTimeRows:
    """The state file's notes of moves, verifications, pending removals and the pause of rebalancing."""

    def __init__(self, database: StateFile) -> None:
        self._database = database

    def recent_move_times(self) -> RecentRebalanceMoveTimes:
        return RecentRebalanceMoveTimes(hosts=self._note_times_by_name(HOST), jobs=self._note_times_by_name(JOB))

    def record_tasks_marked_for_move(self, marked_tasks: Iterable[Place], at: datetime) -> None:
        self.record_note_times(MOVED, (".".join(map(str, task)) for task in marked_tasks), at)

    def marked_campaign_tasks(self) -> dict[Place, datetime]:
        """Return when each campaign task got its deletion mark for a move."""
        places = ((map(int, name.split(".")), at) for name, at in self._note_times_by_name(MOVED).items())
        return {(campaign, array, index): at for (campaign, array, index), at in places}

    def last_verifications(self) -> dict[str, datetime]:
        """Return when each dataset's replicas were last verified, or when verification was last tried."""
        return self._note_times_by_name(READ)

    def failed_verifications(self) -> dict[str, datetime]:
        return self._note_times_by_name(UNREAD)

    def record_verifications(self, read: Iterable[str], unread: Iterable[str], at: datetime) -> None:
        """Record which datasets were verified now, and which datasets could not be read."""
        good, bad = list(read), list(unread)
        with self._database.transaction():
            self.record_note_times(READ, [*good, *bad], at)
            self.record_note_times(UNREAD, bad, at)
            for name in good:
                self._delete_notes_of_kind(UNREAD, NOTES.c.name == name)

    def record_note_times(self, kind: str, names: Iterable[str], at: datetime) -> None:
        """Record the same time for several names of a kind of note, such as HOST, JOB or READ."""
        rows = [{"kind": kind, "name": name, "at": at} for name in names]
        if rows:
            self._database.execute(self._database.upsert(NOTES), rows)

    def replicas_to_remove(self) -> frozenset[tuple[str, str]]:
        """Return the dataset and storage area of each replaced replica that must still be removed."""
        parts = (name.partition(" ") for name in self._note_times_by_name(LEAVING))
        return frozenset((dataset, area) for dataset, _, area in parts)

    def record_replica_to_remove(self, dataset: str, area: str, at: datetime) -> None:
        self.record_note_times(LEAVING, [f"{dataset} {area}"], at)

    def delete_replica_removal_note(self, dataset: str, area: str) -> None:
        self._delete_notes_of_kind(LEAVING, NOTES.c.name == f"{dataset} {area}")

    def delete_old_removal_notes(self, before: datetime) -> None:
        self._delete_notes_of_kind(LEAVING, NOTES.c.at < before)

    def moves_paused_since(self) -> datetime | None:
        return self._note_times_by_name(QUIESCED).get("")

    def record_pause_of_moves(self, at: datetime | None) -> None:
        """Record that all moves are paused from the time `at` on; None ends the pause."""
        with self._database.transaction():
            self._delete_notes_of_kind(QUIESCED)
            self.record_note_times(QUIESCED, [""] if at else [], at or datetime.max)

    def delete_old_rebalance_notes(self, before: datetime) -> None:
        self._database.execute(delete(NOTES).where(NOTES.c.kind.not_in((LEAVING, QUIESCED)), NOTES.c.at < before))

    def _note_times_by_name(self, kind: str) -> dict[str, datetime]:
        rows = self._database.rows(select(NOTES).where(NOTES.c.kind == kind))
        return {row["name"]: row["at"] for row in rows}

    def _delete_notes_of_kind(self, kind: str, *conditions: ColumnElement[bool]) -> None:
        self._database.execute(delete(NOTES).where(NOTES.c.kind == kind, *conditions))
