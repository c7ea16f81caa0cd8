"""What would become of a campaign: what would go where now."""

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.tools import admission_check, campaign_client, event_commands
from gridbridge.config.cluster_kinds import OF_KIND
from gridbridge.decisions.campaigns import campaign_cycle
from gridbridge.decisions.transfer.requests.offered_names import lacking
from gridbridge.errors import ConfigError
from gridbridge.model import vocabulary
from gridbridge.model.campaigns.admission import AdmissionResult
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.cycle_plan import ClusterRoom, CycleSituation
from gridbridge.model.campaigns.jdl import AtCluster, CampaignType, Jdl
from gridbridge.model.campaigns.send_reasons import ShownCycle
from gridbridge.model.places import CONFIG, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.published import ShownCluster
from gridbridge.program import users_configuration
from gridbridge.state import drains, published_json, published_values

BESTEFFORT = "gb-be"  # how the names of best-effort queues begin
NEVER = datetime.max.replace(tzinfo=UTC)  # it is only looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPreview:
    """What a cluster would get in the next cycle."""

    cluster: str
    free_slots: int | None  # None: nobody knows
    tasks: int
    lacks: tuple[int, int] | None = None  # slots of a task, and fewer of the whole cluster
    unknown: tuple[str, ...] = ()  # "queue long": what its tasks ask for and it does not offer
    is_drained: bool = False
    is_stressed: bool = False
    has_prologue: bool = False  # which runs there first
    may_be_spread: bool = False  # nobody knows a parallel environment for a task's hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPreview:
    """What would become of a campaign that is not stored."""

    admitted: AdmissionResult
    tasks: int
    there: tuple[ClusterPreview, ...]
    before: int  # tasks of others that wait, and go first


def preview(
    said: ParsedJdl, told: AdmissionResult, folder: str = PUBLISHED, path: str = CONFIG
) -> SubmissionPreview:
    """Return what would become of an admitted campaign.

    Raises ConfigError for an unknown cluster, and one that can't be asked for such hosts.
    """
    policy = _policy(told.jdl, path)
    admission_check.refuse_hosts(replace(said, jdl=told.jdl), path, folder)
    tasks = len(said.parameters)
    is_test = told.jdl.type is CampaignType.TEST
    tasks = min(tasks, len(told.jdl.clusters)) if is_test else tasks
    wishes = told.jdl.clusters.items()
    free = {name: _free(name, folder, one.is_besteffort) for name, one in wishes}
    drained, stressed = drains.names(folder), _stressed(folder)
    known = {one.name: one.slots for one in event_commands.clusters(folder)}
    lacks = {name: _lacks(one.slots, known.get(name)) for name, one in wishes}
    unknown = {name: _unknown(one, name, folder) for name, one in wishes}
    room = {
        name: ClusterRoom(
            free_slots=slots,
            is_drained=name in drained,
            is_stressed=name in stressed,
        )
        for name, slots in free.items()
        if slots is not None and not lacks[name] and not unknown[name]
    }
    sent = {
        one.cluster: one.tasks for one in campaign_cycle.plan(_alone(told.jdl, tasks, room)).sends
    }
    return SubmissionPreview(
        admitted=told,
        tasks=tasks,
        there=tuple(
            ClusterPreview(
                cluster=name,
                free_slots=slots,
                tasks=sent.get(name, 0),
                lacks=lacks[name],
                unknown=unknown[name],
                is_drained=name in drained,
                is_stressed=name in stressed,
                has_prologue=bool(told.jdl.clusters[name].prologue),
                may_be_spread=_may_be_spread(told.jdl.clusters[name], name, policy, folder),
            )
            for name, slots in free.items()
        ),
        before=0 if is_test else sum(one.waiting for one in campaign_client.seen(folder)),
    )


def _lacks(wanted: int, there: int | None) -> tuple[int, int] | None:
    return (wanted, there) if there and there < wanted else None


def _unknown(wish: AtCluster, cluster: str, folder: str) -> tuple[str, ...]:
    """Return what a cluster does not offer of what tasks ask for, by its last answer to the poller.

    Nothing where it has given none. Best-effort tasks go to queues of their own, where some are.
    """
    told = published_values.read_vocabulary(cluster, folder)
    if told is None:
        return ()
    known = vocabulary.decode(told)
    has_own = wish.is_besteffort and any(each.startswith(BESTEFFORT) for each in known.queue)
    queue = "" if has_own else wish.queue
    found = lacking(known, pe=wish.environment, project=wish.project, queue=queue)
    each = wish.slots // max(1, wish.nodes)
    if wish.environment or wish.slots == 1 or known.environment(wish.nodes, each):
        return found
    return (*found, vocabulary.no_environment(wish.nodes, each).removeprefix("no "))


def _may_be_spread(wish: AtCluster, cluster: str, policy: Policy, folder: str) -> bool:
    """Say whether the slots of a task may lie on other hosts than it asks for.

    Grid Engine places them by the parallel environment, and the cluster has not told its own yet.
    """
    is_by_environment = OF_KIND[policy.clusters[cluster].kind].has_environments
    asks = wish.nodes > 0 and wish.slots > 1 and not wish.environment
    return is_by_environment and asks and published_values.read_vocabulary(cluster, folder) is None


def _alone(jdl: Jdl, tasks: int, room: dict[str, ClusterRoom]) -> CycleSituation:
    """Return what a cycle would see if there were no other campaign, and prologues had run."""
    ready = {name: replace(wish, prologue="") for name, wish in jdl.clusters.items()}
    one = Campaign(
        number=0,
        uid=os.getuid(),
        owner="",
        state=CampaignState.IN_TREATMENT,
        submitted_at=NEVER,
        tasks=tasks,
        digest="",
        jdl=replace(jdl, clusters=ready),
    )
    waiting = {0: tasks}
    return CycleSituation(campaigns=(one,), waiting=waiting, arrays=(), room=room, max_tasks=tasks)


def _stressed(folder: str) -> tuple[str, ...]:
    """Return the clusters that were under stress when the runner saw them last."""
    last = published_campaign_files.read(ShownCycle, folder)
    return last.stressed if last else ()


def _free(cluster: str, folder: str, is_besteffort: bool) -> int | None:
    """Return a cluster's free slots for such tasks, as the runner or the poller saw them last."""
    last = published_campaign_files.read(ShownCycle, folder)
    if last and is_besteffort and cluster in last.besteffort_slots:
        return last.besteffort_slots[cluster]
    if last and cluster in last.free_slots:
        return last.free_slots[cluster]
    polled = published_json.read(f"{folder}/{published_json.CLUSTERS}/{cluster}.json", ShownCluster)
    return polled.free_slots if polled and not polled.trouble else None


def _policy(jdl: Jdl, path: str) -> Policy:
    """Return the site's configuration; ConfigError if it lacks a cluster of the campaign."""
    policy, _ = users_configuration.load(path)
    unknown = sorted(jdl.clusters.keys() - policy.clusters.keys())
    if unknown:
        known = ", ".join(sorted(policy.clusters))
        raise ConfigError((f"no cluster {', '.join(unknown)} here; the clusters are {known}",))
    return policy
