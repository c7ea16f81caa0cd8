"""Implements `gridsub --check`, which shows how many tasks of a campaign would go to which cluster."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gridbridge.campaigns.cli import REFUSED, campaign_explanation
from gridbridge.campaigns.store import campaign_client, published_campaign_files
from gridbridge.campaigns.submission import site_admission_rules
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.cli import output_and_errors
from gridbridge.config.site import OF_KIND
from gridbridge.decisions.campaigns import campaign_cycle_planning, task_send_explanation, task_usage_warnings
from gridbridge.decisions.campaigns.predecessor_conditions import explain_unusable_predecessor
from gridbridge.decisions.transfer.request_mapping import list_names_not_offered
from gridbridge.errors import ConfigError
from gridbridge.model import names_offered_by_cluster
from gridbridge.model.campaigns.admission import CampaignAdmissionResult
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.campaign_predecessors import (
    AwaitedPredecessor,
    PredecessorProgress,
    describe_unmet_predecessor,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations, TaskSentOrUnsentCause
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.published_status_and_reports import (
    PublishedClusterAnswer,
    number_with_noun,
    replace_control_characters,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.program import configuration_in_force
from gridbridge.shell import safe_files
from gridbridge.state import drains, published_file_formats, published_json

BESTEFFORT = "gb-be"  # prefix of the names of best-effort queues
NEVER = datetime.max.replace(tzinfo=UTC)  # submission time of a previewed campaign, later than any other
NOWHERE = "for ever: no cluster of the campaign has the resources that its tasks request"
SPREAD = (
    "{}: the parallel environments are not known yet, so a task's slots may lie on other hosts"
    " than requested; key pe chooses an environment"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPreviewAtCluster:
    cluster: str
    free_slots: int | None  # slots that are free for the campaign's tasks; None if unknown
    tasks: int
    jobs: int
    # a task's slots and the cluster's slots, if the cluster has too few
    lacks: tuple[int, int] | None = None
    unknown: tuple[str, ...] = ()  # requested objects that the cluster lacks, such as "queue long"
    is_drained: bool = False
    is_stressed: bool = False
    wait_for_night: str = ""  # when nightly tasks would start; empty: now
    has_prologue: bool = False
    may_be_spread: bool = False  # whether a task may get slots on more hosts than requested


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPreview:
    """The result of `gridsub --check`."""

    admitted: CampaignAdmissionResult
    tasks: int
    there: tuple[CampaignPreviewAtCluster, ...]
    before: int  # number of waiting tasks of campaigns that are served before this campaign
    unmet: tuple[AwaitedPredecessor, ...] = ()  # predecessors for which the campaign would wait
    warnings: tuple[str, ...] = ()  # from the usage of the last campaign of the same name


def preview_tasks_by_cluster(
    parsed: ParsedJdl, admission: CampaignAdmissionResult, paths: FixedPaths
) -> SubmissionPreview:
    policy, folder = _load_configuration_for_jdl(admission.jdl, paths.configuration), paths.published
    site_admission_rules.refuse_unsupported_properties(replace(parsed, jdl=admission.jdl), paths)
    tasks = len(parsed.parameters)
    is_test = admission.jdl.type is CampaignType.TEST
    tasks = min(tasks, len(admission.jdl.clusters)) if is_test else tasks
    requests = admission.jdl.clusters.items()
    last = published_campaign_files.read_published_campaign_value(PublishedTaskSendExplanations, folder)
    free = {name: _published_free_slots(name, folder, request.is_besteffort, last) for name, request in requests}
    drained, stressed = drains.list_drained_clusters(folder), last.stressed if last else ()
    slots = {cluster.name: cluster.slots or 0 for cluster in campaign_client.published_campaign_clusters(folder)}
    lacks = {name: (request.slots, slots[name]) for name, request in requests if 0 < slots.get(name, 0) < request.slots}
    unknown = {name: _requested_objects_not_offered(request, name, folder) for name, request in requests}
    room = {
        name: ClusterCapacityForCampaigns(free_slots=slots, is_drained=name in drained, is_stressed=name in stressed)
        for name, slots in free.items()
        if slots is not None and name not in lacks and not unknown[name]
    }
    situation = _situation_of_previewed_campaign(admission.jdl, tasks, room, policy)
    plan = campaign_cycle_planning.plan_campaign_cycle(situation)
    sends = {send.cluster: send for send in plan.sends}
    night_waits = {
        reason.cluster: campaign_explanation.describe_wait_for_night(reason)
        for reason in task_send_explanation.explain_campaign_task_sends(situation, plan)
        if reason.cause is TaskSentOrUnsentCause.NIGHT
    }
    return SubmissionPreview(
        warnings=_warnings_from_last_campaign(admission.jdl, folder),
        unmet=unmet_predecessors_of_new_campaign(admission.jdl, tasks, folder),
        admitted=admission,
        tasks=tasks,
        there=tuple(
            CampaignPreviewAtCluster(
                cluster=name,
                free_slots=slots,
                tasks=sends[name].tasks if name in sends else 0,
                jobs=sends[name].jobs if name in sends else 0,
                lacks=lacks.get(name),
                unknown=unknown[name],
                is_drained=name in drained,
                is_stressed=name in stressed,
                wait_for_night=night_waits.get(name, ""),
                has_prologue=bool(admission.jdl.clusters[name].prologue),
                may_be_spread=_may_slots_of_task_be_spread(admission.jdl.clusters[name], name, policy, folder),
            )
            for name, slots in free.items()
        ),
        before=0 if is_test else sum(campaign.waiting for campaign in campaign_client.published_campaigns(folder)),
    )


def _warnings_from_last_campaign(jdl: Jdl, folder: str) -> tuple[str, ...]:
    """Return warnings if the usage of the user's last campaign of this name exceeds the requests of a JDL."""
    named = (shown for shown in _own_published_campaigns(folder) if shown.name == jdl.name and shown.usage)
    last = max(named, key=lambda shown: shown.number, default=None)
    if last is None:
        return ()
    warnings = task_usage_warnings.warnings_from_earlier_usage(last.usage, jdl.clusters)
    return tuple(f"campaign {last.number} at {warning}" for warning in warnings)


def _own_published_campaigns(folder: str) -> list[PublishedCampaign]:
    user = safe_files.account_name_or_uid(os.getuid())
    return [shown for shown in campaign_client.published_campaigns(folder) if shown.owner == user]


def _requested_objects_not_offered(request: JdlSettingsAtCluster, cluster: str, folder: str) -> tuple[str, ...]:
    """Return requested queues, projects and environments that a cluster lacks; empty if unknown."""
    published = published_file_formats.read_offered_names(cluster, folder)
    if published is None:
        return ()
    offered = names_offered_by_cluster.decode_offered_names(published)
    has_own = request.is_besteffort and any(name.startswith(BESTEFFORT) for name in offered.queue)
    queue = "" if has_own else request.queue
    missing = list_names_not_offered(offered, pe=request.environment, project=request.project, queue=queue)
    per_host = request.slots // max(1, request.nodes)
    if request.environment or request.slots == 1 or offered.find_parallel_environment(request.nodes, per_host):
        return missing
    return (*missing, names_offered_by_cluster.missing_parallel_env_reason(request.nodes, per_host).removeprefix("no "))


def _may_slots_of_task_be_spread(request: JdlSettingsAtCluster, cluster: str, policy: Policy, folder: str) -> bool:
    """Say whether a task may get slots on more hosts than requested, because no environment is known."""
    is_by_environment = OF_KIND[policy.clusters[cluster].kind].has_environments
    asks = request.nodes > 0 and request.slots > 1 and not request.environment
    return is_by_environment and asks and published_file_formats.read_offered_names(cluster, folder) is None


def _situation_of_previewed_campaign(
    jdl: Jdl, tasks: int, room: dict[str, ClusterCapacityForCampaigns], policy: Policy
) -> CampaignCycleSituation:
    from gridbridge.campaigns.runner.cluster_queries_and_capacities import next_nights_by_cluster  # a slow import

    jdl = replace(jdl, clusters={name: replace(request, prologue="") for name, request in jdl.clusters.items()})
    state, uid = CampaignState.IN_TREATMENT, os.getuid()
    campaign = Campaign(number=0, uid=uid, owner="", state=state, submitted_at=NEVER, tasks=tasks, digest="", jdl=jdl)
    now = datetime.now(UTC)
    return CampaignCycleSituation(
        campaigns=(campaign,),
        waiting={0: tasks},
        arrays=(),
        room=room,
        max_tasks=tasks,
        at=now,
        nights=next_nights_by_cluster((campaign,), policy.campaigns, now),
    )


def _published_free_slots(
    cluster: str, folder: str, is_besteffort: bool, last: PublishedTaskSendExplanations | None
) -> int | None:
    if last and is_besteffort and cluster in last.besteffort_slots:
        return last.besteffort_slots[cluster]
    if last and cluster in last.free_slots:
        return last.free_slots[cluster]
    polled = published_json.read_published_value(
        f"{folder}/{published_json.CLUSTERS}/{cluster}.json", PublishedClusterAnswer
    )
    return polled.free_slots if polled and not polled.trouble else None


def _load_configuration_for_jdl(jdl: Jdl, path: str) -> Policy:
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    unknown = sorted(jdl.clusters.keys() - policy.clusters.keys())
    if unknown:
        names = ", ".join(sorted(policy.clusters))
        raise ConfigError((f"no cluster {', '.join(unknown)} here; the clusters are {names}",))
    return policy


def unmet_predecessors_of_new_campaign(jdl: Jdl, tasks: int, folder: str) -> tuple[AwaitedPredecessor, ...]:
    """Return the predecessors for which a campaign would wait; raise ConfigError for unknown or unusable ones."""
    own, awaited = _own_published_campaigns(folder), list[AwaitedPredecessor]()
    for predecessor in jdl.after:
        key = "number" if predecessor.number else "name"
        named = [shown for shown in own if getattr(shown, key) == getattr(predecessor, key)]
        if not named:
            raise ConfigError((f"after {predecessor.jdl_text}: no campaign of yours has this {key}",))
        progress = _progress_of_published_campaign(named[-1])
        if why := explain_unusable_predecessor(predecessor, progress, tasks, jdl.on_failure):
            raise ConfigError((f"after {predecessor.jdl_text}: {why}",))
        awaited.append(AwaitedPredecessor(condition=predecessor.condition, progress=progress))
    return tuple(
        predecessor for predecessor in awaited if not predecessor.is_met(predecessor.progress.tasks_not_succeeded)
    )


def _progress_of_published_campaign(published_campaign: PublishedCampaign) -> PredecessorProgress:
    return PredecessorProgress(
        number=published_campaign.number,
        name=replace_control_characters(published_campaign.name),
        tasks=published_campaign.tasks,
        succeeded=published_campaign.ended - published_campaign.failed - published_campaign.cancelled,
        failed=published_campaign.failed,
        cancelled=published_campaign.cancelled,
        is_unfinished=published_campaign.state.is_alive or bool(published_campaign.ending_at),
        is_cancelled=published_campaign.state is CampaignState.CANCELLED,
    )


def print_submission_check(parsed: ParsedJdl, paths: FixedPaths) -> int:
    """Print what admission rules change and what each cluster gets; return 1 for a refused campaign."""
    admission = site_admission_rules.apply_site_admission_rules(parsed, paths)
    for fired in admission.fired:
        for change in fired.changes:
            output_and_errors.print_line(f"rule {fired.rule} changes {replace_control_characters(change)}")
    if admission.refusal:
        output_and_errors.print_error(f"gridsub: {replace_control_characters(admission.refusal)}")
        return REFUSED
    previewed = preview_tasks_by_cluster(parsed, admission, paths)
    name = replace_control_characters(admission.jdl.name)
    output_and_errors.print_line(f"{name}: {number_with_noun(previewed.tasks, 'task')}, nothing is stored")
    waits = (f"the campaign first {describe_unmet_predecessor(predecessor)}" for predecessor in previewed.unmet)
    warnings = (f"warning: {warning}" for warning in previewed.warnings)
    for line in (*waits, *warnings, *map(_describe_cluster_preview, previewed.there)):
        output_and_errors.print_line(line)
    waiting = previewed.tasks - sum(cluster.tasks for cluster in previewed.there)
    if waiting:
        output_and_errors.print_line(f"{waiting} would wait {_describe_wait_of_unsent_tasks(previewed.there)}")
    if previewed.before:
        before = number_with_noun(previewed.before, "task")
        verbs = "waits as well, and goes" if previewed.before == 1 else "wait as well, and go"
        output_and_errors.print_line(f"{before} of earlier campaigns {verbs} first")
    return 0


def _describe_wait_of_unsent_tasks(clusters: Sequence[CampaignPreviewAtCluster]) -> str:
    if all(cluster.lacks for cluster in clusters):
        return "for ever: no cluster of the campaign is large enough for a task"
    return NOWHERE if all(cluster.lacks or cluster.unknown for cluster in clusters) else "for free slots"


def _describe_cluster_preview(cluster: CampaignPreviewAtCluster) -> str:
    if cluster.lacks:
        needed, has = cluster.lacks
        needs = f"a task needs {number_with_noun(needed, 'slot')}, and the cluster has {has}"
        return f"{cluster.cluster}: {needs}: no task goes there"
    if cluster.unknown:
        return f"{cluster.cluster} has no {', no '.join(cluster.unknown)}: no task goes there"
    if cluster.is_drained or cluster.is_stressed:
        state = "drained" if cluster.is_drained else "under stress"
        return f"{cluster.cluster}: no task goes there while the cluster is {state}"
    if cluster.wait_for_night:
        return f"{cluster.cluster}: {cluster.wait_for_night}"
    if cluster.free_slots is None:
        return f"{cluster.cluster}: the free slots are not known yet"
    free, tasks = (number_with_noun(cluster.free_slots, "free slot"), number_with_noun(cluster.tasks, "task"))
    tasks += f" in {number_with_noun(cluster.jobs, 'job')}" if cluster.jobs < cluster.tasks else ""
    when = "once its prologue has ended there" if cluster.has_prologue else "now"
    spread = f"\n{SPREAD.format(cluster.cluster)}" if cluster.may_be_spread else ""
    return f"{cluster.cluster}: {free}, {tasks} would go there {when}{spread}"
