"""Reads new campaigns from a JDL, a command line or a job script."""

import json
import os
from dataclasses import asdict, dataclass, replace

from gridbridge.campaigns.store import campaign_files
from gridbridge.campaigns.submission import command_line_campaigns, jdl_reader, task_per_line_file
from gridbridge.campaigns.submission.command_line_campaigns import CampaignWithoutJdlOptions
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.tools import published_events_and_tasks
from gridbridge.config.site import OF_KIND
from gridbridge.errors import CommandLineMistake, ConfigError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.jdl import CampaignType, Jdl
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, PUBLISHED
from gridbridge.program import users_configuration
from gridbridge.program.model_values_as_json import model_value_from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class GridsubCampaignOptions:
    """Options of gridsub for a campaign without a JDL."""

    clusters: str = ""  # names such as a,b; empty: all clusters
    resources: tuple[str, ...] = ()
    name: str = ""
    type_: str = CampaignType.DEFAULT.value
    is_idempotent: bool = False
    is_normal: bool = False


def read_jdl(path: str, text: str, type_: str, config: str = CONFIG) -> ParsedJdl:
    """Read a JDL; ConfigError lists all mistakes.

    Unknown clusters are mistakes, except on a login node, where the site's clusters are unknown.
    """
    folder = os.path.dirname(path) or "."
    return jdl_reader.parse_jdl(
        path, text, type_=CampaignType(type_), folder=folder, site_clusters=_site_clusters(config)
    )


def campaign_from_number_list(
    numbers: str, words: tuple[str, ...], options: GridsubCampaignOptions, path: str = CONFIG
) -> ParsedJdl:
    """Return a campaign that runs a command for each number; ConfigError lists all mistakes."""
    return command_line_campaigns.campaign_with_task_per_number(numbers, words, _typed(options, path))


def campaign_from_line_file(
    file: str, words: tuple[str, ...], options: GridsubCampaignOptions, path: str = CONFIG
) -> ParsedJdl:
    """Return a campaign that runs a command for each line; ConfigError lists all mistakes."""
    return command_line_campaigns.campaign_with_task_per_line(file, words, _typed(options, path))


def campaign_from_job_script(
    file: str, text: str, words: tuple[str, ...], options: GridsubCampaignOptions, path: str = CONFIG
) -> ParsedJdl:
    """Return a campaign that runs a job script; ConfigError lists all mistakes."""
    return command_line_campaigns.campaign_of_job_script(file, text, words, _typed(options, path))


def campaign_of_failed_tasks(
    number: int, type_: str = "", folder: str = CAMPAIGNS, published: str = PUBLISHED
) -> ParsedJdl:
    """Return a new campaign with the failed tasks of an own campaign, without cancelled tasks."""
    campaign = published_events_and_tasks.find_published_campaign(number, published)
    if not campaign:
        raise ConfigError((f"no campaign {number}",))
    tasks = published_events_and_tasks.finally_failed_tasks(campaign, published)
    failed_tasks = [task for task in tasks if task.outcome is not TaskAttemptOutcome.UNWANTED]
    header, parameters = campaign_files.read_own_campaign_file(number, folder, is_run=True)
    if not failed_tasks:
        raise ConfigError((f"campaign {number}: no task of it has failed",))
    before = model_value_from_json(header, Jdl)
    jdl = replace(before, type=CampaignType(type_)) if type_ else before
    return ParsedJdl(jdl=jdl, parameters=tuple(parameters[task.number] for task in failed_tasks))


def campaign_with_added_tasks(
    number: int, file: str | None, text: str | None, folder: str = CAMPAIGNS
) -> tuple[ParsedJdl, tuple[str, ...]]:
    """Return an own campaign with all its tasks, and the new tasks alone."""
    header, before = campaign_files.read_own_campaign_file(number, folder, is_run=True)
    earlier = tuple(before)
    lines = (
        task_per_line_file.read_added_task_file(str(file))
        if text is None
        else task_per_line_file.parse_added_tasks_json("-J", text)
    )
    new = task_per_line_file.make_task_names_unique(lines, earlier)
    notes = filter(
        None, (task_per_line_file.renamed_tasks_warning(lines, new), task_per_line_file.unclosed_quote_warning(lines))
    )
    warnings = tuple(f"-{'F' if text is None else 'J'}: {note}" for note in notes)
    return ParsedJdl(jdl=model_value_from_json(header, Jdl), parameters=earlier + new, warnings=warnings), new


def encode_jdl_for_transfer_host(parsed: ParsedJdl) -> bytes:
    """Encode a parsed campaign for the transfer host."""
    return campaign_files.encode_campaign_file(asdict(parsed.jdl), parsed.parameters)


def decode_jdl_from_login_node(data: bytes) -> ParsedJdl:
    """Decode a campaign from a login node; ConfigError for invalid data."""
    first, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        return ParsedJdl(jdl=model_value_from_json(json.loads(first), Jdl), parameters=tuple(lines[:-1]))
    except Exception as error:  # the data is untrusted
        raise ConfigError((f"standard input: not what gridsub sends: {error!r:.200}",)) from error


def clusters_accepting_arrays(path: str = CONFIG) -> tuple[str, ...]:
    """Return the configured clusters that accept array jobs."""
    from gridbridge.batch.batch_adapter_table import ADAPTERS

    policy, _ = users_configuration.load_config_or_one_in_force(path)
    return tuple(n for n, cluster in policy.clusters.items() if ADAPTERS[cluster.kind].array_ends)


def _site_clusters(path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(users_configuration.load_config_or_one_in_force(path)[0].clusters))
    except ConfigError:
        return ()


def _typed(options: GridsubCampaignOptions, path: str) -> CampaignWithoutJdlOptions:
    words = (word.strip() for word in options.clusters.split(","))
    chosen = tuple(dict.fromkeys(filter(None, words)))
    _refuse_unknown(chosen, _site_clusters(path))
    names = chosen or _campaign_clusters(path)
    return CampaignWithoutJdlOptions(
        clusters=names,
        by_resource=_by_resource(names, path),
        resources=options.resources,
        name=options.name,
        type_=CampaignType(options.type_),
        is_idempotent=options.is_idempotent,
        is_normal=options.is_normal,
    )


def _refuse_unknown(named: tuple[str, ...], site_clusters: tuple[str, ...]) -> None:
    """Refuse unknown clusters, if this host knows the site's clusters."""
    unknown = [name for name in named if site_clusters and name not in site_clusters]
    if unknown:
        listing = ", ".join(site_clusters)
        raise CommandLineMistake((f"--clusters: no cluster {', '.join(unknown)} here; the clusters are {listing}",))


def _by_resource(names: tuple[str, ...], path: str) -> frozenset[str]:
    """Return the clusters where resources of `qsub -l` are requested by their own names."""
    try:
        policy, _ = users_configuration.load_config_or_one_in_force(path)
    except ConfigError:
        return frozenset()  # unknown kinds of clusters: ignored resources are reported
    kinds = {name: policy.clusters[name].kind for name in names if name in policy.clusters}
    return frozenset(name for name, kind in kinds.items() if not OF_KIND[kind].asks_by_rule)


def _campaign_clusters(path: str) -> tuple[str, ...]:
    try:
        return clusters_accepting_arrays(path)
    except ConfigError as error:
        raise ConfigError((*error.problems, "or name the clusters: --clusters a,b")) from error
