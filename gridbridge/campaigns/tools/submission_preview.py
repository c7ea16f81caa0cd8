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
    parsed: ParsedJdl, admission: AdmissionResult, folder: str = PUBLISHED, path: str = CONFIG
) -> SubmissionPreview:
    """Return what would become of an admitted campaign.

    Raises ConfigError for an unknown cluster, and one that can't be asked for such hosts.
    """
    policy = _policy(admission.jdl, path)
    admission_check.refuse_hosts(replace(parsed, jdl=admission.jdl), path, folder)
    tasks = len(parsed.parameters)
    is_test = admission.jdl.type is CampaignType.TEST
    tasks = min(tasks, len(admission.jdl.clusters)) if is_test else tasks
    requests = admission.jdl.clusters.items()
    free = {name: _free(name, folder, request.is_besteffort) for name, request in requests}
    drained, stressed = drains.names(folder), _stressed(folder)
    slots_by_cluster = {cluster.name: cluster.slots for cluster in event_commands.clusters(folder)}
    lacks = {name: _lacks(request.slots, slots_by_cluster.get(name)) for name, request in requests}
    unknown = {name: _unknown(request, name, folder) for name, request in requests}
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
        send.cluster: send.tasks
        for send in campaign_cycle.plan(_alone(admission.jdl, tasks, room)).sends
    }
    return SubmissionPreview(
        admitted=admission,
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
                has_prologue=bool(admission.jdl.clusters[name].prologue),
                may_be_spread=_may_be_spread(admission.jdl.clusters[name], name, policy, folder),
            )
            for name, slots in free.items()
        ),
        before=0
        if is_test
        else sum(campaign.waiting for campaign in campaign_client.published_campaigns(folder)),
    )


def _lacks(needed: int, available: int | None) -> tuple[int, int] | None:
    return (needed, available) if available and available < needed else None


def _unknown(request: AtCluster, cluster: str, folder: str) -> tuple[str, ...]:
    """Return what a cluster does not offer of what tasks ask for, by its last answer to the poller.

    Nothing where it has given none. Best-effort tasks go to queues of their own, where some are.
    """
    published = published_values.read_vocabulary(cluster, folder)
    if published is None:
        return ()
    offered = vocabulary.decode(published)
    has_own = request.is_besteffort and any(name.startswith(BESTEFFORT) for name in offered.queue)
    queue = "" if has_own else request.queue
    missing = lacking(offered, pe=request.environment, project=request.project, queue=queue)
    per_host = request.slots // max(1, request.nodes)
    if request.environment or request.slots == 1 or offered.environment(request.nodes, per_host):
        return missing
    return (*missing, vocabulary.no_environment(request.nodes, per_host).removeprefix("no "))


def _may_be_spread(request: AtCluster, cluster: str, policy: Policy, folder: str) -> bool:
    """Say whether the slots of a task may lie on other hosts than it asks for.

    Grid Engine places them by the parallel environment, and the cluster has not told its own yet.
    """
    is_by_environment = OF_KIND[policy.clusters[cluster].kind].has_environments
    asks = request.nodes > 0 and request.slots > 1 and not request.environment
    return is_by_environment and asks and published_values.read_vocabulary(cluster, folder) is None


def _alone(jdl: Jdl, tasks: int, room: dict[str, ClusterRoom]) -> CycleSituation:
    """Return what a cycle would see if there were no other campaign, and prologues had run."""
    ready = {name: replace(request, prologue="") for name, request in jdl.clusters.items()}
    campaign = Campaign(
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
    return CycleSituation(
        campaigns=(campaign,), waiting=waiting, arrays=(), room=room, max_tasks=tasks
    )


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
        names = ", ".join(sorted(policy.clusters))
        raise ConfigError((f"no cluster {', '.join(unknown)} here; the clusters are {names}",))
    return policy
