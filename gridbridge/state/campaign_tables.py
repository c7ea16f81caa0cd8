"""The tables of campaigns, arrays, attempts, waiting tasks and executed requests, and conversion of campaigns.

Waiting tasks are stored as ranges, so that a million tasks are one row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Index,
    Table,
    and_,
    bindparam,
    delete,
    false,
    or_,
    select,
    text,
)

from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlClusterSettings, JdlDataset
from gridbridge.model.cluster_snapshot import CampaignJobsAtCluster
from gridbridge.state.column_types import (
    COUNTED,
    METADATA,
    JsonColumn,
    PrintableTextColumn,
    UtcTimeColumn,
)
from gridbridge.state.state_file import StateFile

CAMPAIGNS = Table(
    "campaigns",
    METADATA,
    Column("number", COUNTED, primary_key=True),
    Column("uid", BigInteger, nullable=False),
    Column("owner", PrintableTextColumn, nullable=False),
    Column("state", PrintableTextColumn, nullable=False),
    Column("submitted_at", UtcTimeColumn, nullable=False),
    Column("tasks", BigInteger, nullable=False),
    Column("ended", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("cancelled", BigInteger, nullable=False, server_default="0"),
    Column("token", PrintableTextColumn, nullable=False, unique=True),
    Column("digest", PrintableTextColumn, nullable=False),
    Column("jdl", JsonColumn, nullable=False),
    Column("ended_at", UtcTimeColumn),
    Column(
        "is_end_noted", Boolean, nullable=False, server_default=false()
    ),  # whether root's ledger has the campaign's end
)

WAITING = Table(
    "campaign_waiting",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("priority", BigInteger, nullable=False),
    Column("avoid", PrintableTextColumn, nullable=False, server_default=""),  # cluster names between blanks
    Column("never", PrintableTextColumn, nullable=False, server_default=""),  # cluster names between blanks
)

DONE = Table(
    "campaign_requests",
    METADATA,
    Column("token", PrintableTextColumn, primary_key=True),
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("done_at", UtcTimeColumn, nullable=False),
)

PARTS = Table(
    "campaign_parts",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("tasks", BigInteger, nullable=False),
    Column("digest", PrintableTextColumn, nullable=False),
    Column("token", PrintableTextColumn, nullable=False, unique=True),
)

ARRAYS = Table(
    "campaign_arrays",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", PrintableTextColumn, nullable=False),
    Column("state", PrintableTextColumn, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("intended_at", UtcTimeColumn, nullable=False),
    Column("is_repeated", Boolean, nullable=False, server_default=false()),
    Column("copies_beyond_s", BigInteger),  # NULL except for arrays of speculative attempts
    Index("campaign_arrays_state", "state"),
    Index("campaign_arrays_copies", "campaign", "copies_beyond_s"),
    Index("campaign_arrays_cluster", "campaign", "cluster", "number"),
)

RAN = text("wallclock_s IS NOT NULL")  # rows with a run time

ATTEMPTS = Table(
    "campaign_attempts",
    METADATA,
    Column("campaign", BigInteger, primary_key=True, autoincrement=False),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("array", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("outcome", PrintableTextColumn, nullable=False),
    Column("exit_status", BigInteger),
    Column("wallclock_s", BigInteger),
    Column(
        "is_past", Boolean, nullable=False, server_default=false()
    ),  # whether the attempt belongs to a closed event, and no longer counts
    Column("is_overrun", Boolean, nullable=False, server_default=false()),  # set only for speculative attempts
    Index("campaign_attempts_array", "campaign", "array"),
    # Migration v0001 makes the index partial in PostgreSQL; `postgresql_where` would load the dialect here.
    Index("campaign_attempts_ran", "campaign", "array", sqlite_where=RAN),
    sqlite_with_rowid=False,
)


NO_ARRAY = 0  # array of a task that was cancelled while waiting
PLACE = ("campaign", "array", "place")  # the key of tables about attempts
ARRAY = tuple(ARRAYS.c[field.name] for field in fields(CampaignArray))
# `in_` and not `!= OVER`, so that an index finds the few open arrays.
IS_OPEN = ARRAYS.c.state.in_([state for state in ArraySubmissionState if state is not ArraySubmissionState.OVER])
IS_GOING = or_(
    CAMPAIGNS.c.state.in_((CampaignState.IN_TREATMENT, CampaignState.PAUSED)),
    and_(CAMPAIGNS.c.state == CampaignState.CANCELLED, CAMPAIGNS.c.ended_at.is_(None)),
)
SENT_TO = select(*ARRAY).where(ARRAYS.c.cluster == bindparam("cluster"), ARRAYS.c.job_id > 0, IS_OPEN)
ANY = select(CAMPAIGNS.c.number).where(IS_GOING).limit(1)


def delete_rows_of_attempts(
    database: StateFile, table: Table, keys: Iterable[Mapping[str, object]], *also: ColumnElement[bool]
) -> None:
    """Delete a table's rows about some tasks of arrays; `also` is a further condition on the rows."""
    of = (table.c[name] == bindparam(f"of_{name}") for name in PLACE)
    of_place = delete(table).where(*of, *also)
    rows = [{f"of_{name}": key[name] for name in PLACE} for key in keys]
    database.execute_each(of_place, rows)


def delete_rows_of_ended_attempts(database: StateFile, table: Table) -> None:
    """Delete a table's rows about attempts that have ended.

    The rows are checked array by array, because the index of attempts is by array.
    """
    indices_by_array: dict[tuple[int, int], list[int]] = {}
    for row in database.rows(select(*(table.c[name] for name in PLACE))):
        indices_by_array.setdefault((row["campaign"], row["array"]), []).append(row["place"])
    for (campaign, array), indices in indices_by_array.items():
        of = (ATTEMPTS.c.campaign == campaign, ATTEMPTS.c.array == array)
        query = select(ATTEMPTS.c.place).where(*of, ATTEMPTS.c.outcome == TaskAttemptOutcome.PENDING)
        pending = {row["place"] for row in database.rows(query)}
        over = ({"campaign": campaign, "array": array, "place": index} for index in indices)
        delete_rows_of_attempts(database, table, (key for key in over if key["place"] not in pending))


def campaign_to_row(campaign: Campaign) -> dict[str, Any]:
    """Return the column values of a campaign for the state file."""
    values = {field.name: getattr(campaign, field.name) for field in fields(Campaign)}
    return values | {"jdl": asdict(campaign.jdl)}


def campaign_from_row(row: dict[str, Any]) -> Campaign:
    """Return the campaign of a table row; the row's JDL may be parsed already."""
    jdl = row["jdl"] if isinstance(row["jdl"], Jdl) else jdl_from_json(row["jdl"])
    return Campaign(**row | {"state": CampaignState(row["state"]), "jdl": jdl})


def jdl_from_json(stored: Mapping[str, Any]) -> Jdl:
    """Return a JDL from the JSON values that the state file has stored."""
    clusters = {name: JdlClusterSettings(**fields) for name, fields in stored["clusters"].items()}
    values = {**stored, "type": CampaignType(stored["type"]), "outputs": tuple(stored["outputs"])}
    datasets = {name: JdlDataset(**fields) for name, fields in stored["datasets"].items()}
    return Jdl(**values | {"clusters": clusters, "datasets": datasets})


def live_campaign_jobs_at(database: StateFile, cluster: str) -> CampaignJobsAtCluster:
    """Return the jobs of campaigns that may still be alive at a cluster."""
    rows = database.rows(SENT_TO, cluster=cluster)
    return CampaignJobsAtCluster(
        jobs=frozenset(row["job_id"] for row in rows),
        released=frozenset(
            f"{row['campaign']}.{row['number']}" for row in rows if row["state"] == ArraySubmissionState.RELEASED
        ),
        is_watched=bool(rows or database.rows(ANY)),
    )
