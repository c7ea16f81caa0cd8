"""What a job would be submitted with at another cluster, or why it can't go there."""

import os
import re
import shlex
from dataclasses import dataclass

from gridbridge import config
from gridbridge.apply.routes import cell, mapping
from gridbridge.batch.gridengine import commands
from gridbridge.batch.gridengine import submit as gridengine
from gridbridge.batch.gridengine.request import Request, cwd_of, parallel_of
from gridbridge.errors import ParseError, Unmappable
from gridbridge.model.ids import TransferId
from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy
from gridbridge.model.report import printable
from gridbridge.services.drain import refuse_unreached
from gridbridge.services.requests import translated, words_of

ENDLESS = 9999999  # slots, of a range without an end (sge_pe(5))
_JOB = re.compile(r"([1-9]\d{0,8})(?:\.([1-9]\d{0,8}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """The submission of one job, or why there would be none."""

    job: str
    cluster: str
    command: str = ""  # as a shell would take it; the wrapper is on its standard input
    notes: tuple[str, ...] = ()
    refused: str = ""


def foresee(job: str, remote: str, path: str = CONFIG) -> Foreseen:
    """Say with what a job would be submitted to a remote cluster; nothing is changed.

    Raises ParseError for what is no job id, GridbridgeError for a cluster to which no queue
    leads or a job that home does not list, and ConfigError.
    """
    policy = config.load(path)
    transfer = _transfer(job, policy)
    refuse_unreached(remote, (queue.cluster for queue in policy.queues.values()))
    xml = gridengine.detail(cell(policy, policy.site.cluster), str(transfer.job))
    request, asked_parallel = Request(xml), parallel_of(xml)
    rules, away = mapping(policy, remote), cell(policy, remote)
    known = words_of(remote)
    try:
        parallel, there = translated(request, asked_parallel, rules, known, remote, policy.queues)
    except Unmappable as error:
        return Foreseen(job=transfer.local, cluster=remote, refused=printable(str(error)))
    notes = there.notes
    cwd = cwd_of(xml) or os.path.expanduser(f"~{request.owner}")
    if away.login:
        cwd = ""  # the account's home, as methods.job.folder says
        notes += (f"by ssh, at {away.login.host} as {away.login.user or 'yourself'}",)
    shell = policy.clusters[remote].shell
    argv = commands.submit_held(away, str(transfer), request, shell, cwd, parallel)
    if asked_parallel and parallel.rpartition(" ")[2] == str(ENDLESS):
        notes += ("with as many slots as are granted",)
    return Foreseen(
        job=transfer.local,
        cluster=remote,
        command=printable(shlex.join(argv)),
        notes=tuple(map(printable, notes)),
    )


def _transfer(job: str, policy: Policy) -> TransferId:
    parts = _JOB.fullmatch(job)
    if not parts:
        raise ParseError(f"{job!r} is not a job id: JOB or JOB.TASK, as qstat shows them")
    return TransferId(policy.site.cluster, int(parts[1]), int(parts[2] or 0), 1)
