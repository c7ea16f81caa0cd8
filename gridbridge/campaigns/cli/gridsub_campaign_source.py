"""Reads the campaign of gridsub from a JDL, a job script with `#$` lines, or the command line."""

import io
import json
import os
import sys
import tomllib
from codecs import BOM_UTF8
from dataclasses import dataclass, replace

import click

from gridbridge.campaigns.cli import command_relay_and_runner_wait
from gridbridge.campaigns.store import campaign_client, campaign_files_of_owners
from gridbridge.campaigns.store.campaign_client import CampaignSubmissionRefusal
from gridbridge.campaigns.store.campaign_files_of_owners import ForeignOrMissingCampaignFile
from gridbridge.campaigns.submission import (
    campaigns_without_jdl,
    jdl_reader,
    jdl_writer_and_task_files,
    site_admission_rules,
)
from gridbridge.campaigns.submission.campaigns_without_jdl import CampaignWithoutJdlOptions
from gridbridge.campaigns.submission.jdl_reader import CLUSTERS, ParsedJdl
from gridbridge.campaigns.submission.jdl_value_parsers import PARAMETERS
from gridbridge.campaigns.submission.jdl_writer_and_task_files import FILE_BYTES, is_json_jdl
from gridbridge.cli import output_and_errors
from gridbridge.config.site import OF_KIND
from gridbridge.errors import CommandLineMistake, ConfigError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_predecessors import PredecessorFailureAction
from gridbridge.model.campaigns.jdl import CampaignType, Jdl
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site_configuration import ClusterKind
from gridbridge.program import configuration_in_force
from gridbridge.program.model_values_as_json import model_value_from_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gridbridge.campaigns.submission.task_file_listing import CampaignInputFileLister


def read_jdl(path: str, text: str, type_: str, config: str) -> ParsedJdl:
    """Read a JDL, on a login node with any names of clusters; raise ConfigError with all mistakes."""
    folder = os.path.dirname(path) or "."
    return jdl_reader.parse_jdl(
        path, text, type_=CampaignType(type_), folder=folder, site_clusters=_configured_cluster_names(config)
    )


def campaign_of_failed_tasks(number: int, type_: str, paths: FixedPaths) -> ParsedJdl:
    """Return a new campaign with the failed tasks of the caller's campaign, without cancelled tasks."""
    campaign = campaign_client.find_published_campaign(number, paths.published)
    if not campaign:
        raise ConfigError((f"no campaign {number}",))
    tasks = campaign_client.finally_failed_tasks(campaign, paths.published)
    failed_tasks = [task for task in tasks if task.outcome is not TaskAttemptOutcome.UNWANTED]
    header, parameters = campaign_files_of_owners.read_own_campaign_file(number, paths.campaigns, is_run=True)
    if not failed_tasks:
        raise ConfigError((f"campaign {number}: no task has failed",))
    before = model_value_from_json(header, Jdl)
    # the tasks have been sent before, so they await no predecessor
    before = replace(before, after=(), on_failure=PredecessorFailureAction.WAIT)
    jdl = replace(before, type=CampaignType(type_)) if type_ else before
    return ParsedJdl(jdl=jdl, parameters=tuple(parameters[task.number] for task in failed_tasks))


def campaign_with_added_tasks(
    number: int, file: str | None, text: str | None, folder: str
) -> tuple[ParsedJdl, tuple[str, ...]]:
    """Return the caller's campaign with added tasks, and the added parameters alone; store nothing."""
    header, before = campaign_files_of_owners.read_own_campaign_file(number, folder, is_run=True)
    earlier = tuple(before)
    lines = (
        jdl_writer_and_task_files.read_added_task_file(str(file))
        if text is None
        else jdl_writer_and_task_files.parse_added_tasks_json("-J", text)
    )
    new = jdl_writer_and_task_files.make_task_names_unique(lines, earlier)
    option = "-F" if text is None else "-J"
    warnings = tuple(f"{option}: {note}" for note in jdl_writer_and_task_files.task_line_warnings(lines, new))
    return ParsedJdl(jdl=model_value_from_json(header, Jdl), parameters=earlier + new, warnings=warnings), new


def check_task_files(jdl: Jdl, parameters: tuple[str, ...], first: int = 0) -> "CampaignInputFileLister | None":
    """Return the input files of the tasks from number `first` on, if any.

    Raises ConfigError with the tasks that lack an input file or have an output with an invalid name.
    """
    if not (jdl.inputs or jdl.outputs or jdl.checkpoint_files):
        return None
    from gridbridge.campaigns.submission import task_file_listing  # few campaigns declare files

    task_file_listing.require_valid_outputs_of_tasks(jdl, parameters)
    return task_file_listing.list_inputs_of_tasks(jdl, parameters, first) if jdl.inputs else None


def make_folder_of_outputs(jdl: Jdl) -> None:
    """Make the folder `outputs_to` of a new campaign, if any; raise ConfigError."""
    if jdl.outputs_to:
        from gridbridge.campaigns.submission import task_file_listing  # few campaigns declare files

        task_file_listing.make_folder_of_outputs(jdl)


def decode_jdl_from_login_node(data: bytes) -> ParsedJdl:
    """Decode a campaign that a login node sent; raise ConfigError for invalid data."""
    first, *lines = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        return ParsedJdl(jdl=model_value_from_json(json.loads(first), Jdl), parameters=tuple(lines[:-1]))
    except Exception as error:  # untrusted data may cause any exception
        raise ConfigError((f"standard input: not the data that gridsub sends: {error!r:.200}",)) from error


def _configured_cluster_kinds(path: str) -> dict[str, ClusterKind]:
    policy, _ = configuration_in_force.load_config_or_one_in_force(path)
    return {name: cluster.kind for name, cluster in policy.clusters.items()}


def _configured_cluster_names(path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(_configured_cluster_kinds(path)))
    except ConfigError:
        return ()


def choose_clusters_of_campaign(options: CampaignWithoutJdlOptions, path: str) -> CampaignWithoutJdlOptions:
    """Return the options, with all clusters if none is named; raise CommandLineMistake for wrong names."""
    chosen = options.clusters
    try:
        kinds = _configured_cluster_kinds(path)
    except ConfigError as error:
        if not chosen:
            raise ConfigError((*error.problems, "or name the clusters: --clusters a,b")) from error
        kinds = {}  # a login node does not know the clusters' batch systems
    if unknown := [name for name in chosen if kinds and name not in kinds]:
        listing = ", ".join(sorted(kinds))
        raise CommandLineMistake((f"--clusters: no cluster {', '.join(unknown)} here; the clusters are {listing}",))
    if not chosen:
        from gridbridge.batch.batch_adapter_table import ADAPTERS

        chosen = tuple(name for name, kind in kinds.items() if ADAPTERS[kind].array_ends)
    by_resource = frozenset(name for name in chosen if name in kinds and not OF_KIND[kinds[name]].asks_by_rule)
    return replace(options, clusters=chosen, by_resource=by_resource)


CHECK = "--check"
SOURCES = "give one of -f FILE, -j JSON, -, --array, --each-line, --retry-failed and a job script"
STANDARD_INPUT = "-"
USAGE = "give -c ID with -F FILE or -J JSON, and with no other option of a campaign"
TELLING = frozenset({"name", CLUSTERS, "exec_file", *PARAMETERS})  # a text with one of these keys is a JDL
TOML_LETTERS = 60_000  # a longer text is not checked for TOML, because a script of this length is refused anyway


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSourceOptions:
    path: str | None
    text: str | None
    numbers: str | None
    lines: str | None
    retried: int | None
    words: tuple[str, ...]
    wishes: CampaignWithoutJdlOptions
    paths: FixedPaths
    type_: str | None = None

    @property
    def has_no_campaign_options(self) -> bool:
        return not self.words and self._count_source_options == 0 and self.wishes == CampaignWithoutJdlOptions()

    @property
    def _count_source_options(self) -> int:
        options = (self.path, self.text, self.numbers, self.lines, self.retried)
        return sum(option is not None for option in options)

    @property
    def _is_campaign_from_command_line(self) -> bool:
        return self.numbers is not None or self.lines is not None

    def retry_options_to_relay(self) -> list[str]:
        """Return the options of gridsub --retry-failed for the transfer host; empty without --retry-failed."""
        if self.retried is None:
            return []
        self._require_single_campaign_source()
        self._refuse_options_beside_jdl()
        return ["--retry-failed", str(self.retried), *(("-t", self.type_) if self.type_ else ())]

    def read_campaign(self) -> ParsedJdl:
        """Read the campaign; raises click.UsageError if the options do not name exactly one source."""
        self._require_single_campaign_source()
        if self._is_campaign_from_command_line:
            return self._campaign_from_command_line()
        if self.words and self.words[0] != STANDARD_INPUT:
            file = self.words[0]
            text = read_jdl_or_script(file)
            # sh would run the JDL as a script
            if file.lower().endswith((".json", ".toml", ".jdl")) or looks_like_jdl(text):
                raise click.UsageError(f"{file}: a JDL, not a job script; expected gridsub -f {file}")
            _check_options_after_script(file, self.words[1:])
            options = choose_clusters_of_campaign(self.wishes, self.paths.configuration)
            return campaigns_without_jdl.campaign_of_job_script(file, text, self.words[1:], options)
        if len(self.words) > 1:
            raise click.UsageError(SOURCES)
        self._refuse_options_beside_jdl()
        if self.retried is not None:
            return campaign_of_failed_tasks(self.retried, self.type_ or "", self.paths)
        source = "the JDL of -j" if self.text is not None else self.path or STANDARD_INPUT
        text = self.text if self.text is not None else read_jdl_or_script(source)
        return read_jdl(source, text, self.wishes.type_, self.paths.configuration)

    def _require_single_campaign_source(self) -> None:
        if self._count_source_options + (bool(self.words) and not self._is_campaign_from_command_line) != 1:
            raise click.UsageError(SOURCES)

    def _campaign_from_command_line(self) -> ParsedJdl:
        if not self.words:
            option = "--array 1-9" if self.numbers is not None else f"--each-line {self.lines}"
            raise click.UsageError(f"no command stands after --; expected gridsub {option} -- CMD {{}}")
        options = choose_clusters_of_campaign(self.wishes, self.paths.configuration)
        if self.numbers is not None:
            return campaigns_without_jdl.campaign_with_task_per_number(self.numbers, self.words, options)
        file = "/dev/stdin" if self.lines == STANDARD_INPUT else str(self.lines)
        return campaigns_without_jdl.campaign_with_task_per_line(file, self.words, options)

    def _refuse_options_beside_jdl(self) -> None:
        if self.wishes != CampaignWithoutJdlOptions(type_=self.wishes.type_):
            raise click.UsageError(
                "--clusters, -l, -N, --type, --input, --after and --idempotent exclude a JDL; expected keys in the JDL"
            )


def _check_options_after_script(file: str, words: tuple[str, ...]) -> None:
    """Refuse --check after a job script, and warn about further options of gridsub after the script."""
    if CHECK in words:
        raise click.UsageError(
            f"{CHECK} after {file} would be an argument of the script; expected gridsub {CHECK} {file}, or"
            f" gridsub --array 1 -- {file} {CHECK} {{}} for a script that has such an option"
        )
    for word in ("--wait", "--clusters", "--type"):
        if word in words:
            output_and_errors.print_error(
                f"gridsub: {word} after the script is an argument of the script; "
                "expected gridsub's options before the script"
            )


def read_jdl_or_script(path: str) -> str:
    """Return the text of a JDL or script; raises click.UsageError if the file can't be read."""
    try:
        data = _read_file_or_stdin(path).removeprefix(BOM_UTF8)
        text = data.decode()
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise click.UsageError(f"{path}:{line}: {data[error.start]:#x} is not UTF-8") from error
    if len(data) > FILE_BYTES:
        raise click.UsageError(f"{path}: longer than {FILE_BYTES >> 20} MiB")
    return io.StringIO(text, newline=None).read()


def _read_file_or_stdin(path: str) -> bytes:
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read(FILE_BYTES + 1)
    with open(path, "rb") as file:
        return file.read(FILE_BYTES + 1)


def add_campaign_tasks(
    number: int, file: str | None, text: str | None, paths: FixedPaths, *, is_check: bool, is_details: bool
) -> int:
    """Add the tasks of a file or JSON list to a campaign, or only check them; return the exit status."""
    campaign = campaign_client.find_published_campaign(number, paths.published)
    if campaign and not campaign.state.is_alive:
        campaign_files_of_owners.require_own_campaign(number, paths.campaigns)
        raise CampaignSubmissionRefusal(f"campaign {number} is {campaign.state}; submit the tasks as a new campaign")
    path = "/dev/stdin" if file == STANDARD_INPUT else file
    try:
        parsed, new = campaign_with_added_tasks(number, path, text, paths.campaigns)
    except ForeignOrMissingCampaignFile as error:
        if campaign:
            raise
        # a new campaign may not be published yet, so only a missing campaign file is an error
        raise CampaignSubmissionRefusal(f"no campaign {number}") from error
    for warning in parsed.warnings:
        output_and_errors.print_error(f"gridsub: {warning}")
    site_admission_rules.require_unchanged_by_site_rules(parsed, paths)
    files = check_task_files(parsed.jdl, parsed.parameters, len(parsed.parameters) - len(new))
    lines = tuple(files.lines) if files else new
    if is_check:
        output_and_errors.print_line(f"campaign {number}: {number_with_noun(len(new), 'task')} to add, none stored")
        return 0
    with command_relay_and_runner_wait.report_late_runner_answer("gridsub"):
        campaign_client.add_tasks_to_campaign(number, lines, paths)
    added = number_with_noun(len(new), "task")
    more = [command_relay_and_runner_wait.stored_campaign_json(number, parsed)] if is_details else []
    lines = (f"{added} successfully added", *more, f"CAMPAIGN_ID={number}")
    return command_relay_and_runner_wait.print_stored_submission(
        "gridsub", lines, f"stored for campaign {number}: {added}"
    )


def looks_like_jdl(text: str) -> bool:
    """Say whether a text without `#!` is a JSON object, or TOML with a key of a JDL."""
    if text.startswith("#!"):
        return False
    try:
        if is_json_jdl(text):
            return isinstance(json.loads(text), dict)
        table = tomllib.loads(text) if len(text) <= TOML_LETTERS else {}
    except (ValueError, RecursionError):
        return False
    return any(key.lower() in TELLING for key in table)
