"""qalter_remote: change the remote half of a job that waits there, as the person who calls."""

import os
import pwd
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from gridbridge import config
from gridbridge.apply.clusters import cell, mapping
from gridbridge.apply.transfer.requests import keep_there, translated, words_of
from gridbridge.batch.gridengine import commands, submit
from gridbridge.batch.gridengine.request import parallel_of, read_request
from gridbridge.errors import Unmappable
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import Desired, Phase
from gridbridge.model.places import CONFIG, PUBLISHED, is_place
from gridbridge.model.policy import Policy
from gridbridge.model.report import printable
from gridbridge.model.request import JobSpec, Pairs
from gridbridge.model.shown import ShownTransfer
from gridbridge.services.tools.remote_half import (
    LIMIT_S,
    NotDone,
    Told,
    each_away,
    reach,
    require_own,
)

HOLD, RELEASE = "u", "U"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be changed; None: nothing of that."""

    priority: int | None = None
    resources: Pairs | None = None  # replace the hard ones, in the words of home
    hold: str | None = None  # HOLD or RELEASE


def alter(
    job: str,
    change: Change,
    *,
    is_dry: bool = False,
    folder: str = PUBLISHED,
    path: str = CONFIG,
) -> Iterator[Told]:
    """Change what is away of a job; tell what came of each task.

    Raises ParseError for what is no job id, ConfigError, and StateError without published files.
    """
    policy = config.load(path)
    return each_away(
        job,
        folder,
        f"qalter {job} changes",
        lambda one: _alter(one, change, policy, folder, is_dry),
    )


def _alter(one: ShownTransfer, change: Change, policy: Policy, folder: str, is_dry: bool) -> str:
    me = pwd.getpwuid(os.getuid()).pw_name
    if one.owner != me:
        raise NotDone(f"it is {one.owner}'s, not yours")
    if why := hindrance(one, change):
        raise NotDone(why)
    where = reach(policy, one.remote)
    options = _options(one, change, policy, folder)
    require_own(where, one, me)
    job, local = str(one.remote_id), parse_transfer(one.transfer).local
    state = submit.state(where, job)
    if not state.is_waiting:
        raise NotDone(f"job {job} at {one.remote} is {state.text or 'gone'}: it waits no more")
    if is_dry:
        return printable(shlex.join(commands.alter(where, job, options)))
    submit.alter(where, job, options)
    return printable(f"job {local}: job {job} at {one.remote} changed: {shlex.join(options)}")


def hindrance(one: ShownTransfer, change: Change) -> str:
    """Say why a transfer can't be changed so just now; empty when it can."""
    local = parse_transfer(one.transfer).local
    if one.desired == Desired.DEAD:
        return "it was deleted here"
    if one.outcome:
        return f"it has ended at {one.remote}: {one.outcome}"
    if change.hold == RELEASE and one.desired == Desired.SUSPENDED:
        return f"it is held by its suspend here: qmod -usj {local} lets it go on"
    if one.phase != Phase.RELEASED and one.desired != Desired.SUSPENDED:
        return f"it is just being sent to {one.remote}: try again in a moment"
    return ""


def _options(one: ShownTransfer, change: Change, policy: Policy, folder: str) -> commands.Argv:
    options: commands.Argv = ()
    if change.priority is not None:
        options += ("-p", str(change.priority))
    if change.resources is not None:
        options += _resources(one, change.resources, policy, folder)
    if change.hold is not None:
        options += ("-h", change.hold)
    return options


def _resources(one: ShownTransfer, wanted: Pairs, policy: Policy, folder: str) -> commands.Argv:
    """Translate the new request, and the rest of what home was asked for, as the starter would."""
    home = cell(policy, policy.site.cluster).within(LIMIT_S)
    xml = submit.detail(home, str(parse_transfer(one.transfer).job))
    pe, slots = parallel_of(xml)
    asks = read_request(xml).but(hard=wanted)
    spec = JobSpec(transfer=one.transfer, request=asks, pe=pe, slots=slots)
    rules, known = mapping(policy, one.remote, one.queue), words_of(one.remote, folder)
    try:
        spec, _ = translated(spec, rules, known, one.remote, policy.queues)
    except Unmappable as error:
        raise NotDone(str(error)) from error
    hard = tuple(pair for pair in spec.request.hard if not is_place(pair[0]))
    if not hard:
        raise NotDone(f"nothing of that is asked for at {one.remote}")
    there = keep_there(spec, one.remote, folder).request
    return commands.resource_options(hard, there.soft, there.stays)
