"""Builds queries about a whole OAR server whose cost hardly grows with other users' jobs.

`oarstat -f` needs some ten database queries for each job, `oarstat -J` two or three, plain `oarstat` none.
So other users' waiting jobs get one line each. `--sql` is a condition on table `jobs` (oarstat(1)).
"""

from collections.abc import Iterable

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.model.transfer_name import PREFIX
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.program_runs import quote_for_sh

MOST_LINES = 10_000  # at most this many waiting jobs are listed; a job's line takes about 40 us
MOST_OF_ONE = 10  # at most this many of a user's jobs with names like a transfer's are listed
MOST_REQUESTS = 500  # at most this many waiting jobs and arrays are queried in full
MOST_HELD = 1_000  # at most this many held jobs are listed
WAITS = "state IN ('Waiting', 'toAckReservation')"
IDLE = "state IN ('Waiting', 'toAckReservation', 'Hold')"
ACTIVE = "state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')"  # jobs with slots
DELETED = "EXISTS (SELECT 1 FROM frag_jobs WHERE frag_id_job = jobs.job_id)"
YIELDS = f"queue_name = {oar_command_line_builders.quote_for_sql('besteffort')}"
FORGEABLE = (  # SQL condition for held or resubmitted jobs with a transfer's name, which any user may choose
    f"job_name LIKE {oar_command_line_builders.quote_for_sql(f'{PREFIX}.%')}"
    f" AND (state = 'Hold' AND NOT {DELETED} OR resubmit_job_id <> 0 AND ({IDLE} OR {ACTIVE}))"
)
OURS = (
    "job_id IN (SELECT job_id FROM (SELECT job_id, row_number() OVER"  # noqa: S608 - constants
    f" (PARTITION BY job_user ORDER BY job_id) AS place FROM jobs WHERE {FORGEABLE})"
    f" AS named WHERE place <= {MOST_OF_ONE})"
)
RESERVED = f"reservation <> 'None' AND {WAITS}"
REQUESTS = (  # users take turns, one job at a time, so that no user's jobs use up the limit
    "job_id IN (SELECT job_id FROM (SELECT min(job_id) AS job_id, row_number()"  # noqa: S608
    f" OVER (PARTITION BY job_user ORDER BY min(job_id)) AS place FROM jobs WHERE {WAITS}"
    f" GROUP BY job_user, array_id ORDER BY place, job_id LIMIT {MOST_REQUESTS}) AS requests)"
)
WAITING = f"SELECT job_id FROM jobs WHERE {WAITS} ORDER BY job_id LIMIT {MOST_LINES}"  # noqa: S608
HELD = f"SELECT job_id FROM jobs WHERE state = 'Hold' ORDER BY job_id LIMIT {MOST_HELD}"  # noqa: S608
LINES = (
    f"job_id IN (SELECT job_id FROM ({WAITING}) AS waiting)"  # noqa: S608 - constants
    f" OR job_id IN (SELECT job_id FROM ({HELD}) AS held)"
)


def oar_status_query_argv(
    server: OarServerAccessSettings, job_ids: Iterable[int], uncounted: Iterable[int]
) -> oar_command_line_builders.Argv:
    """Build the query for nodes and jobs; waiting jobs come first, so that no starting job is missed."""
    ours = f"array_id IN ({_sql_number_list(job_ids)})"
    begun = f"{ours} AND ({ACTIVE} OR {IDLE} AND {DELETED})"
    return _join_query_commands(
        oar_command_line_builders.show_nodes_argv(server),
        _list_jobs_argv(server, f"{ours} AND {IDLE} AND NOT {DELETED}", "-J"),
        _list_jobs_argv(server, f"{begun} OR {OURS}", "-f", "-J"),
        _list_jobs_argv(server, _counted_jobs_condition(uncounted), "--format", "1"),
    )


def oar_demand_query_argv(server: OarServerAccessSettings) -> oar_command_line_builders.Argv:
    """Build the query for nodes, running jobs, waiting jobs in short lines, and some waiting jobs in full."""
    return _join_query_commands(
        oar_command_line_builders.show_nodes_argv(server),
        _list_jobs_argv(server, f"{ACTIVE} OR {RESERVED} OR {REQUESTS}", "-f", "-J"),
        _list_jobs_argv(server, LINES, "--array", "--format", "1"),
    )


def oar_busy_nodes_query_argv(server: OarServerAccessSettings) -> oar_command_line_builders.Argv:
    """Build the query for nodes, and for jobs that have or reserve slots."""
    jobs = _list_jobs_argv(server, f"{ACTIVE} OR {RESERVED}", "-f", "-J")
    return _join_query_commands(oar_command_line_builders.show_nodes_argv(server), jobs)


def _counted_jobs_condition(uncounted: Iterable[int]) -> str:
    ordinary = f"array_id NOT IN ({_sql_number_list(uncounted)}) AND NOT {YIELDS} AND NOT {DELETED}"
    condition = f"{WAITS} AND {ordinary} LIMIT {MOST_LINES}"
    waiting = f"SELECT job_id FROM (SELECT job_id FROM jobs WHERE {condition}) AS waiting"  # noqa: S608
    return f"job_id IN ({waiting}) OR {YIELDS} AND {ACTIVE}"


def _sql_number_list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids))) or "-1"


def _list_jobs_argv(server: OarServerAccessSettings, condition: str, *options: str) -> oar_command_line_builders.Argv:
    return oar_command_line_builders.time_limited_oar_argv(server, "oarstat", *options, "--sql", condition)


def _join_query_commands(*questions: oar_command_line_builders.Argv) -> oar_command_line_builders.Argv:
    between, after = (
        quote_for_sh(mark.decode()) for mark in (oar_command_line_builders.BREAK, oar_command_line_builders.WHOLE)
    )
    commands = (" ".join(map(quote_for_sh, question)) for question in questions)
    return ("/bin/sh", "-c", f"{f' && printf %s {between} && '.join(commands)} && printf %s {after}")
