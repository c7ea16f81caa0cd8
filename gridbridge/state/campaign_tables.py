"""The tables of campaigns, arrays, attempts, ranges of waiting tasks, and requests that were carried out."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_predecessors import (
    CampaignPredecessor,
    PredecessorCondition,
    PredecessorFailureAction,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlDataset, JdlSettingsAtCluster
from gridbridge.model.cluster_snapshot import CampaignJobsSentBeforeListing
from gridbridge.state import column_types
from gridbridge.state.state_file import StateFile


class JdlColumn(sa.TypeDecorator[Jdl]):
    """A column for a campaign's JDL, stored as JSON."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Jdl | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else column_types.to_json_text(asdict(value))

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Jdl | None:
        if value is None:
            return None
        return _cached_jdl_from_text(value) if len(value) <= MAX_CACHED_CHARACTERS else _jdl_from_text(value)


def _jdl_from_text(text: str) -> Jdl:
    return jdl_from_json(json.loads(text))


# each cycle reads the JDLs of unfinished campaigns several times; a JDL of a common size has 1000 characters
MAX_CACHED_CHARACTERS = 20_000
_cached_jdl_from_text = lru_cache(maxsize=1000)(_jdl_from_text)


def jdl_from_json(stored: Mapping[str, Any]) -> Jdl:
    clusters = {name: JdlSettingsAtCluster(**fields) for name, fields in stored["clusters"].items()}
    values = {**stored, "type": CampaignType(stored["type"]), "outputs": tuple(stored["outputs"])}
    values |= {name: tuple(stored.get(name, ())) for name in ("inputs", "checkpoint_files")}
    datasets = {name: JdlDataset(**fields) for name, fields in stored["datasets"].items()}
    after = tuple(
        CampaignPredecessor(**fields | {"condition": PredecessorCondition(fields["condition"])})
        for fields in stored.get("after", ())
    )
    on_failure = PredecessorFailureAction(stored.get("on_failure", PredecessorFailureAction.WAIT))
    return Jdl(**values | {"clusters": clusters, "datasets": datasets, "after": after, "on_failure": on_failure})


CAMPAIGNS = sa.Table(
    "campaigns",
    column_types.METADATA,
    column_types.row_number_column("number"),
    *column_types.integer_columns("uid"),
    *column_types.text_columns("owner"),
    *column_types.text_columns("name", default=""),
    sa.Column("state", column_types.EnumWordColumn(CampaignState), nullable=False),
    *column_types.time_columns("submitted_at"),
    *column_types.integer_columns("tasks", "ended", "failed"),
    *column_types.integer_columns("cancelled", default="0"),
    sa.Column("token", column_types.PrintableTextColumn, nullable=False, unique=True),
    *column_types.text_columns("digest"),
    sa.Column("jdl", JdlColumn, nullable=False),
    *column_types.time_columns("ended_at", nullable=True),
    *column_types.flag_columns("is_end_noted"),  # whether root's ledger records that the campaign has ended
    sa.Index("campaigns_name", "uid", "name"),
)

WAITING = sa.Table(
    "campaign_waiting",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "first"),
    *column_types.integer_columns("last", "attempt", "priority"),
    *column_types.text_columns("avoid", "never", default=""),  # names of clusters, with blanks between them
    *column_types.text_columns("awaits", default=""),  # numbers of predecessors, with blanks between them
    *column_types.time_columns("holds_until", nullable=True),
    *column_types.text_columns("never_later", default=""),
    sa.Index("campaign_waiting_holds_until", "holds_until"),
)

PREDECESSORS = sa.Table(
    "campaign_predecessors",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "predecessor"),
    sa.Column("condition", column_types.EnumWordColumn(PredecessorCondition), nullable=False),
    sa.Index("campaign_predecessors_predecessor", "predecessor"),
)

DONE = sa.Table(
    "campaign_requests",
    column_types.METADATA,
    *column_types.text_key_columns("token"),
    *column_types.integer_key_columns("campaign"),
    *column_types.time_columns("done_at"),
)

PARTS = sa.Table(
    "campaign_parts",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "number"),
    *column_types.integer_columns("tasks"),
    *column_types.text_columns("digest"),
    sa.Column("token", column_types.PrintableTextColumn, nullable=False, unique=True),
)

ARRAYS = sa.Table(
    "campaign_arrays",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "number"),
    *column_types.text_columns("cluster"),
    sa.Column("state", column_types.EnumWordColumn(ArraySubmissionState), nullable=False),
    *column_types.integer_columns("size", "job_id"),
    *column_types.time_columns("intended_at"),
    *column_types.flag_columns("is_repeated", "is_ordinary"),
    *column_types.integer_columns("copies_beyond_s", nullable=True),  # NULL for arrays of ordinary attempts
    *column_types.integer_columns("checkpoint_s", "group_s", "group_wait_s", "added_tasks", default="0"),
    *column_types.integer_columns("group_tasks", default="1"),
    sa.Index("campaign_arrays_state", "state"),
    sa.Index("campaign_arrays_copies", "campaign", "copies_beyond_s"),
    sa.Index("campaign_arrays_cluster", "campaign", "cluster", "number"),
)

ATTEMPTS = sa.Table(
    "campaign_attempts",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "task", "attempt"),
    *column_types.integer_columns("array", "place"),
    sa.Column("outcome", column_types.EnumWordColumn(TaskAttemptOutcome), nullable=False),
    *column_types.integer_columns("exit_status", "wallclock_s", "max_rss_kb", "written_kb", nullable=True),
    *column_types.integer_columns("checkpoint_bytes", nullable=True),
    # `is_past`: the event about the attempt is closed, so the attempt does not count any more.
    # `is_overrun`: an attempt with outcome COPY that overran its walltime.
    # `has_progressed`: a lost or preempted attempt that left a newer checkpoint than it began with.
    # `is_unwanted`: the owner cancelled the task during the attempt.
    *column_types.flag_columns("is_past", "is_overrun", "has_progressed", "is_unwanted"),
    sa.Index("campaign_attempts_array", "campaign", "array"),
    # In PostgreSQL, migration v0001 makes this index partial: `postgresql_where` would import the dialect here.
    sa.Index("campaign_attempts_ran", "campaign", "array", sqlite_where=sa.text("wallclock_s IS NOT NULL")),
    sqlite_with_rowid=False,
)

# outputs of successful tasks that are still to be brought to the folder `outputs_to` of their campaign's JDL
OUTPUTS = sa.Table(
    "campaign_outputs",
    column_types.METADATA,
    *column_types.integer_key_columns("campaign", "task", "attempt"),
    *column_types.text_columns("cluster"),
    *column_types.flag_columns("is_absent"),  # the cluster does not have the outputs
    sa.Index("campaign_outputs_cluster", "campaign", "cluster", "task"),
    sa.Index("campaign_outputs_absent", "is_absent", "campaign", "cluster"),
)


NO_ARRAY = 0  # array number in the attempt of a task that was cancelled before it was sent
PLACE = ("campaign", "array", "place")  # columns by which tables about attempts name an attempt
ARRAY = tuple(ARRAYS.c[field.name] for field in fields(CampaignArray))
# Not `!= OVER`: with `in_`, the database finds the few unfinished arrays by the index.
IS_OPEN = ARRAYS.c.state.in_([state for state in ArraySubmissionState if state is not ArraySubmissionState.OVER])
IS_GOING = sa.or_(
    CAMPAIGNS.c.state.in_((CampaignState.IN_TREATMENT, CampaignState.PAUSED)),
    sa.and_(CAMPAIGNS.c.state == CampaignState.CANCELLED, CAMPAIGNS.c.ended_at.is_(None)),
)
SENT_TO = sa.select(*ARRAY).where(ARRAYS.c.cluster == sa.bindparam("cluster"), ARRAYS.c.job_id > 0, IS_OPEN)
ANY = sa.select(CAMPAIGNS.c.number).where(IS_GOING).limit(1)


def delete_rows_of_attempts(
    database: StateFile, table: sa.Table, keys: Iterable[Mapping[str, object]], *also: sa.ColumnElement[bool]
) -> None:
    """Delete a table's rows about the attempts `keys`, if the rows meet the conditions `also`."""
    of = (table.c[name] == sa.bindparam(f"of_{name}") for name in PLACE)
    of_place = sa.delete(table).where(*of, *also)
    rows = [{f"of_{name}": key[name] for name in PLACE} for key in keys]
    database.execute_for_each_row(of_place, rows)


def delete_rows_of_ended_attempts(database: StateFile, table: sa.Table) -> None:
    """Delete the rows about ended attempts from a table, with an indexed query for each array."""
    indices_by_array: dict[tuple[int, int], list[int]] = {}
    for row in database.rows(sa.select(*(table.c[name] for name in PLACE))):
        indices_by_array.setdefault((row["campaign"], row["array"]), []).append(row["place"])
    for (campaign, array), indices in indices_by_array.items():
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.array == array)
        query = sa.select(ATTEMPTS.c.place).where(*of, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING)
        pending = {row["place"] for row in database.rows(query)}
        over = ({"campaign": campaign, "array": array, "place": index} for index in indices)
        delete_rows_of_attempts(database, table, (key for key in over if key["place"] not in pending))


def live_campaign_jobs_at(database: StateFile, cluster: str) -> CampaignJobsSentBeforeListing:
    rows = database.rows(SENT_TO, cluster=cluster)
    return CampaignJobsSentBeforeListing(
        jobs=frozenset(row["job_id"] for row in rows),
        released=frozenset(
            f"{row['campaign']}.{row['number']}" for row in rows if row["state"] == ArraySubmissionState.RELEASED
        ),
        is_watched=bool(rows or database.rows(ANY)),
    )
