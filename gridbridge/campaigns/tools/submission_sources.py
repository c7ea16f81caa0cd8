"""Where a new campaign comes from: a JDL, or a command or job script that needs none."""

import json
import os
from dataclasses import asdict, dataclass, replace

from gridbridge.campaigns.store import campaign_files
from gridbridge.campaigns.submission import (
    added_tasks,
    command_line_campaigns,
    jdl_reader,
)
from gridbridge.campaigns.submission import (
    task_names as named,
)
from gridbridge.campaigns.submission.command_line_campaigns import CommandLineOptions
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.tools import task_views
from gridbridge.config.cluster_kinds import OF_KIND
from gridbridge.errors import ConfigError, UsageMistake
from gridbridge.model.campaigns.campaign import TaskOutcome
from gridbridge.model.campaigns.jdl import CampaignType, Jdl
from gridbridge.model.places import CAMPAIGNS, CONFIG, PUBLISHED
from gridbridge.program import users_configuration
from gridbridge.program.encoding import decode


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionOptions:
    """What the options of a command line say of a campaign without a JDL."""

    clusters: str = ""  # a,b; empty: all
    resources: tuple[str, ...] = ()
    name: str = ""
    type_: str = CampaignType.DEFAULT.value
    is_idempotent: bool = False
    is_normal: bool = False


def read(path: str, text: str, type_: str, config: str = CONFIG) -> ParsedJdl:
    """Read a JDL; ConfigError tells everything that is wrong with it.

    An unknown cluster is, unless nobody here knows the site's: on a login node.
    """
    folder = os.path.dirname(path) or "."
    return jdl_reader.load(
        path, text, type_=CampaignType(type_), folder=folder, site_clusters=_site_clusters(config)
    )


def array(
    numbers: str, words: tuple[str, ...], options: SubmissionOptions, path: str = CONFIG
) -> ParsedJdl:
    """Return a campaign that runs a command for each number; ConfigError for what is wrong."""
    return command_line_campaigns.array(numbers, words, _typed(options, path))


def each_line(
    file: str, words: tuple[str, ...], options: SubmissionOptions, path: str = CONFIG
) -> ParsedJdl:
    """Return a campaign that runs a command for each line; ConfigError for what is wrong."""
    return command_line_campaigns.each_line(file, words, _typed(options, path))


def script(
    file: str, text: str, words: tuple[str, ...], options: SubmissionOptions, path: str = CONFIG
) -> ParsedJdl:
    """Return a campaign that runs a job script; ConfigError for what is wrong."""
    return command_line_campaigns.script(file, text, words, _typed(options, path))


def failed(
    number: int, type_: str = "", folder: str = CAMPAIGNS, published: str = PUBLISHED
) -> ParsedJdl:
    """Return a campaign of the failed tasks of another one of ours, but those that we cancelled.

    It is of that one's type, unless another is given. Raises NotTheirs, and ConfigError where none
    has failed.
    """
    campaign = task_views.find(number, published)
    if not campaign:
        raise ConfigError((f"no campaign {number}",))
    tasks = task_views.failed(campaign, published)
    failed_tasks = [task for task in tasks if task.outcome is not TaskOutcome.UNWANTED]
    header, parameters = campaign_files.brought(number, folder, is_run=True)
    if not failed_tasks:
        raise ConfigError((f"campaign {number}: no task of it has failed",))
    before = decode(header, Jdl)
    jdl = replace(before, type=CampaignType(type_)) if type_ else before
    return ParsedJdl(jdl=jdl, parameters=tuple(parameters[task.number] for task in failed_tasks))


def more(
    number: int, file: str | None, text: str | None, folder: str = CAMPAIGNS
) -> tuple[ParsedJdl, tuple[str, ...]]:
    """Return a campaign of ours with all tasks that it will have, and the new ones.

    They are the lines of a file, or a JSON list. Raises NotTheirs, and ConfigError for what is
    wrong with them.
    """
    header, before = campaign_files.brought(number, folder, is_run=True)
    earlier = tuple(before)
    lines = added_tasks.of_file(str(file)) if text is None else added_tasks.of_text("-J", text)
    new = named.named_once(lines, earlier)
    notes = filter(None, (named.rename_warning(lines, new), named.left_open(lines)))
    warnings = tuple(f"-{'F' if text is None else 'J'}: {note}" for note in notes)
    return ParsedJdl(jdl=decode(header, Jdl), parameters=earlier + new, warnings=warnings), new


def encoded(parsed: ParsedJdl) -> bytes:
    """Write a campaign that was read, with all that it needs."""
    return campaign_files.encode(asdict(parsed.jdl), parsed.parameters)


def ready(data: bytes) -> ParsedJdl:
    """Return what was written so; ConfigError for anything else."""
    first, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        return ParsedJdl(jdl=decode(json.loads(first), Jdl), parameters=tuple(lines[:-1]))
    except Exception as error:  # whatever somebody wrote there
        raise ConfigError((f"standard input: not what gridsub sends: {error!r:.200}",)) from error


def clusters(path: str = CONFIG) -> tuple[str, ...]:
    """Return the configured clusters that take arrays of tasks."""
    from gridbridge.batch.adapters import ADAPTERS

    policy, _ = users_configuration.load(path)
    return tuple(n for n, cluster in policy.clusters.items() if ADAPTERS[cluster.kind].array_ends)


def _site_clusters(path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(users_configuration.load(path)[0].clusters))
    except ConfigError:
        return ()


def _typed(options: SubmissionOptions, path: str) -> CommandLineOptions:
    words = (word.strip() for word in options.clusters.split(","))
    chosen = tuple(dict.fromkeys(filter(None, words)))
    _refuse_unknown(chosen, _site_clusters(path))
    names = chosen or _campaign_clusters(path)
    return CommandLineOptions(
        clusters=names,
        by_resource=_by_resource(names, path),
        resources=options.resources,
        name=options.name,
        type_=CampaignType(options.type_),
        is_idempotent=options.is_idempotent,
        is_normal=options.is_normal,
    )


def _refuse_unknown(named: tuple[str, ...], site_clusters: tuple[str, ...]) -> None:
    """Refuse clusters that nobody has, where it is known here who has which."""
    unknown = [name for name in named if site_clusters and name not in site_clusters]
    if unknown:
        listing = ", ".join(site_clusters)
        raise UsageMistake(
            (f"--clusters: no cluster {', '.join(unknown)} here; the clusters are {listing}",)
        )


def _by_resource(names: tuple[str, ...], path: str) -> frozenset[str]:
    """Return those of some clusters that are asked for resources by their own names."""
    try:
        policy, _ = users_configuration.load(path)
    except ConfigError:
        return frozenset()  # nobody knows what they are; what is asked for is told
    kinds = {name: policy.clusters[name].kind for name in names if name in policy.clusters}
    return frozenset(name for name, kind in kinds.items() if not OF_KIND[kind].asks_by_rule)


def _campaign_clusters(path: str) -> tuple[str, ...]:
    try:
        return clusters(path)
    except ConfigError as error:
        raise ConfigError((*error.problems, "or name the clusters: --clusters a,b")) from error
