"""Reads the campaign that gridsub's command line names: a JDL, a script, or added tasks."""

import io
import json
import sys
import tomllib
from codecs import BOM_UTF8
from dataclasses import dataclass

import click

from gridbridge.campaigns.cli import runner_wait_messages
from gridbridge.campaigns.store import campaign_files
from gridbridge.campaigns.store.campaign_files import ForeignOrMissingCampaignFile
from gridbridge.campaigns.submission import admission_rules
from gridbridge.campaigns.submission.jdl_reader import CLUSTERS, ParsedJdl
from gridbridge.campaigns.submission.jdl_value_parsers import PARAMETERS
from gridbridge.campaigns.submission.jdl_writer import is_json_jdl
from gridbridge.campaigns.submission.task_per_line_file import FILE_BYTES
from gridbridge.campaigns.tools import campaign_client, new_campaigns, published_events_and_tasks
from gridbridge.campaigns.tools.campaign_client import CampaignSubmissionRefusal
from gridbridge.campaigns.tools.new_campaigns import GridsubCampaignOptions
from gridbridge.cli import output
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.status_report import number_with_noun

CHECK = "--check"
OURS_ALONE = ("--wait", "--clusters", "--type")
ENDINGS = (".json", ".toml", ".jdl")  # file name endings of a JDL, in upper or lower case
JSON_TEXT = "the JDL of -j"
SOURCES = "give one of -f FILE, -j JSON, -, --array, --each-line, --retry-failed and a job script"
STANDARD_INPUT = "-"
USAGE = "-c ID goes with -F FILE or -J JSON, and with no other campaign"
TELLING = frozenset({"name", CLUSTERS, "exec_file", *PARAMETERS})  # keys that mark a JDL
TOML_LETTERS = 60_000  # longest text checked for TOML; a longer script is refused anyway


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSourceOptions:
    """Options of gridsub that say where a campaign comes from: JDL, script or command."""

    path: str | None
    text: str | None
    numbers: str | None
    lines: str | None
    retried: int | None
    words: tuple[str, ...]
    wishes: GridsubCampaignOptions
    type_: str | None = None  # campaign type; None: not given

    @property
    def is_nothing(self) -> bool:
        """Whether the options name neither a campaign nor a property of one."""
        options = (self.path, self.text, self.numbers, self.lines, self.retried)
        plain = GridsubCampaignOptions(type_=CampaignType.DEFAULT.value)
        return not (self.words or any(option is not None for option in options)) and (self.wishes == plain)

    @property
    def _is_command(self) -> bool:
        return self.numbers is not None or self.lines is not None

    def retry(self) -> list[str]:
        """Return the options that retry failed tasks; empty for another kind of campaign."""
        if self.retried is None:
            return []
        self._weigh()
        self._refuse_wishes()
        return ["--retry-failed", str(self.retried), *(("-t", self.type_) if self.type_ else ())]

    def read(self) -> ParsedJdl:
        """Read the campaign; usage error unless the options name exactly one source."""
        self._weigh()
        if self._is_command:
            return self._command()
        if self.words and self.words[0] != STANDARD_INPUT:
            file = self.words[0]
            text = read_jdl_or_script(file)
            _refuse_jdl(file, text)
            _weigh_options(file, self.words[1:])
            return new_campaigns.campaign_from_job_script(file, text, self.words[1:], self.wishes)
        if len(self.words) > 1:
            raise click.UsageError(SOURCES)
        self._refuse_wishes()
        if self.retried is not None:
            return new_campaigns.campaign_of_failed_tasks(self.retried, self.type_ or "")
        source = JSON_TEXT if self.text is not None else self.path or STANDARD_INPUT
        text = self.text if self.text is not None else read_jdl_or_script(source)
        return new_campaigns.read_jdl(source, text, self.wishes.type_)

    def _weigh(self) -> None:
        """Raise a usage error unless the options name exactly one source of a campaign."""
        options = (self.path, self.text, self.numbers, self.lines, self.retried)
        alone = bool(self.words) and not self._is_command
        if sum(option is not None for option in options) + alone != 1:
            raise click.UsageError(SOURCES)

    def _command(self) -> ParsedJdl:
        if not self.words:
            option = "--array 1-9" if self.numbers is not None else f"--each-line {self.lines}"
            raise click.UsageError(f"no command stands after --; expected gridsub {option} -- CMD {{}}")
        if self.numbers is not None:
            return new_campaigns.campaign_from_number_list(self.numbers, self.words, self.wishes)
        file = "/dev/stdin" if self.lines == STANDARD_INPUT else str(self.lines)
        return new_campaigns.campaign_from_line_file(file, self.words, self.wishes)

    def _refuse_wishes(self) -> None:
        if self.wishes != GridsubCampaignOptions(type_=self.wishes.type_):
            raise click.UsageError("--clusters, -l, -N, --type and --idempotent exclude a JDL, whose keys say this")


def _refuse_jdl(file: str, text: str) -> None:
    """Refuse a JDL in the place of a job script: sh would run it."""
    if file.lower().endswith(ENDINGS) or looks_like_jdl(text):
        raise click.UsageError(f"{file}: it is a JDL and no job script; expected gridsub -f {file}")


def _weigh_options(file: str, words: tuple[str, ...]) -> None:
    """Warn of gridsub options behind a job script, which the script gets, as with qsub.

    --check behind a script is refused, since the campaign would be submitted without a check.
    """
    if CHECK in words:
        raise click.UsageError(
            f"{CHECK} behind {file} would be the script's own; expected gridsub {CHECK} {file}, or"
            f" gridsub --array 1 -- {file} {CHECK} {{}} for a script that has such an option"
        )
    for word in OURS_ALONE:
        if word in words:
            output.print_error(
                f"gridsub: {word} behind the script goes to the script; expected options of gridsub before it"
            )


def read_jdl_or_script(path: str) -> str:
    """Return the text of a JDL or script; usage error if the file can't be read."""
    try:
        data = _bytes_of(path).removeprefix(BOM_UTF8)
        text = data.decode()
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise click.UsageError(f"{path}:{line}: {data[error.start]:#x} is not UTF-8") from error
    if len(data) > FILE_BYTES:
        raise click.UsageError(f"{path}: longer than {FILE_BYTES >> 20} MiB")
    return io.StringIO(text, newline=None).read()


def _bytes_of(path: str) -> bytes:
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read(FILE_BYTES + 1)
    with open(path, "rb") as file:
        return file.read(FILE_BYTES + 1)


def add_campaign_tasks(number: int, file: str | None, text: str | None, *, is_check: bool, is_details: bool) -> int:
    """Add the lines of a file or of a JSON list; a check stores nothing. Return the status."""
    campaign = published_events_and_tasks.find_published_campaign(number)
    if campaign and not campaign.state.is_alive:
        campaign_files.require_own_campaign(number)
        raise CampaignSubmissionRefusal(f"campaign {number} is {campaign.state}; submit the rest as another one")
    path = "/dev/stdin" if file == STANDARD_INPUT else file
    try:
        parsed, new = new_campaigns.campaign_with_added_tasks(number, path, text)
    except ForeignOrMissingCampaignFile as error:
        if campaign:
            raise
        # the published list may lack a new campaign, so only its missing file is an error
        raise CampaignSubmissionRefusal(f"no campaign {number}") from error
    for warning in parsed.warnings:
        output.print_error(f"gridsub: {warning}")
    admission_rules.require_unchanged_by_site_rules(parsed)
    if is_check:
        output.print_line(f"campaign {number}: {number_with_noun(len(new), 'task')} more, nothing is stored")
        return 0
    with runner_wait_messages.report_late_runner_answer("gridsub"):
        campaign_client.add_tasks_to_campaign(number, new)
    added = number_with_noun(len(new), "task")
    more = [runner_wait_messages.stored_campaign_json(number, parsed)] if is_details else []
    lines = (f"{added} successfully added", *more, f"CAMPAIGN_ID={number}")
    return runner_wait_messages.print_stored_submission(
        "gridsub", lines, f"{added} more of campaign {number} are stored"
    )


def looks_like_jdl(text: str) -> bool:
    """Say whether a text is a JSON object, or TOML with a key of a JDL.

    A text that begins with `#!` is a script, even if it would be valid TOML.
    """
    if text.startswith("#!"):
        return False
    try:
        if is_json_jdl(text):
            return isinstance(json.loads(text), dict)
        table = tomllib.loads(text) if len(text) <= TOML_LETTERS else {}
    except (ValueError, RecursionError):
        return False
    return any(key.lower() in TELLING for key in table)
