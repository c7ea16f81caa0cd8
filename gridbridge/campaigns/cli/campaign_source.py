"""Where a campaign comes from, as gridsub's command line says."""

import io
import sys
from codecs import BOM_UTF8
from dataclasses import dataclass

import click

from gridbridge.campaigns.submission.jdl_detection import is_jdl
from gridbridge.campaigns.submission.jdl_reader import ParsedJdl
from gridbridge.campaigns.submission.task_file import FILE_BYTES
from gridbridge.campaigns.tools import submission_sources
from gridbridge.campaigns.tools.submission_sources import SubmissionOptions
from gridbridge.cli import output
from gridbridge.model.campaigns.jdl import CampaignType

CHECK = "--check"
OURS_ALONE = ("--wait", "--clusters", "--type")
ENDINGS = (".json", ".toml", ".jdl")  # in any case of letters
JSON_TEXT = "the JDL of -j"
SOURCES = "give one of -f FILE, -j JSON, -, --array, --each-line, --retry-failed and a job script"
STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Where a campaign comes from, as the command line says."""

    path: str | None
    text: str | None
    numbers: str | None
    lines: str | None
    retried: int | None
    words: tuple[str, ...]
    wishes: SubmissionOptions
    type_: str | None = None  # of the campaign; None: it is not said

    @property
    def is_nothing(self) -> bool:
        """Whether no campaign is named, and nothing of one."""
        options = (self.path, self.text, self.numbers, self.lines, self.retried)
        plain = SubmissionOptions(type_=CampaignType.DEFAULT.value)
        return not (self.words or any(option is not None for option in options)) and (
            self.wishes == plain
        )

    @property
    def _is_command(self) -> bool:
        return self.numbers is not None or self.lines is not None

    def retry(self) -> list[str]:
        """Return the words that ask for failed tasks once more; none where something else is."""
        if self.retried is None:
            return []
        self._weigh()
        self._refuse_wishes()
        return ["--retry-failed", str(self.retried), *(("-t", self.type_) if self.type_ else ())]

    def read(self) -> ParsedJdl:
        """Return the campaign; a usage error unless it comes from one place."""
        self._weigh()
        if self._is_command:
            return self._command()
        if self.words and self.words[0] != STANDARD_INPUT:
            file = self.words[0]
            text = text_of(file)
            _refuse_jdl(file, text)
            _weigh_options(file, self.words[1:])
            return submission_sources.script(file, text, self.words[1:], self.wishes)
        if len(self.words) > 1:
            raise click.UsageError(SOURCES)
        self._refuse_wishes()
        if self.retried is not None:
            return submission_sources.failed(self.retried, self.type_ or "")
        source = JSON_TEXT if self.text is not None else self.path or STANDARD_INPUT
        text = self.text if self.text is not None else text_of(source)
        return submission_sources.read(source, text, self.wishes.type_)

    def _weigh(self) -> None:
        """Refuse a campaign that comes from several places, or from none."""
        options = (self.path, self.text, self.numbers, self.lines, self.retried)
        alone = bool(self.words) and not self._is_command
        if sum(option is not None for option in options) + alone != 1:
            raise click.UsageError(SOURCES)

    def _command(self) -> ParsedJdl:
        if not self.words:
            option = "--array 1-9" if self.numbers is not None else f"--each-line {self.lines}"
            raise click.UsageError(
                f"no command stands after --; expected gridsub {option} -- CMD {{}}"
            )
        if self.numbers is not None:
            return submission_sources.array(self.numbers, self.words, self.wishes)
        file = "/dev/stdin" if self.lines == STANDARD_INPUT else str(self.lines)
        return submission_sources.each_line(file, self.words, self.wishes)

    def _refuse_wishes(self) -> None:
        if self.wishes != SubmissionOptions(type_=self.wishes.type_):
            raise click.UsageError(
                "--clusters, -l, -N, --type and --idempotent exclude a JDL, whose keys say this"
            )


def _refuse_jdl(file: str, text: str) -> None:
    """Refuse a JDL in the place of a job script: sh would run it."""
    if file.lower().endswith(ENDINGS) or is_jdl(text):
        raise click.UsageError(f"{file}: it is a JDL and no job script; expected gridsub -f {file}")


def _weigh_options(file: str, words: tuple[str, ...]) -> None:
    """Tell who writes our options behind a script that they are its own words, as at qsub.

    Who asks for a check there would have the campaign submitted, so that is refused.
    """
    if CHECK in words:
        raise click.UsageError(
            f"{CHECK} behind {file} would be the script's own; expected gridsub {CHECK} {file}, or"
            f" gridsub --array 1 -- {file} {CHECK} {{}} for a script that has such an option"
        )
    for word in OURS_ALONE:
        if word in words:
            output.complain(
                f"gridsub: {word} behind the script goes to the script;"
                " expected options of gridsub before it"
            )


def text_of(path: str) -> str:
    """Return the text of a JDL or script; a usage error where there is none."""
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
