"""gridsub: submit a campaign, a bag of tasks for many clusters."""

import io
import sys
from dataclasses import dataclass

import click
from click.core import ParameterSource

from gridbridge.cli import output, program
from gridbridge.cli.grid import REFUSED, UNREACHABLE, adding, checking, onward, waiting
from gridbridge.config.brought.jdl import FILE_BYTES, Said
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.campaigns.jdl import Type
from gridbridge.model.places import CAMPAIGNS
from gridbridge.services.tools import campaign_check, campaign_sources, campaigns
from gridbridge.services.tools.campaign_sources import Wishes
from gridbridge.services.tools.campaigns import Refused, Unreachable
from gridbridge.state.campaign_files import NotTheirs

JSON_TEXT = "the JDL of -j"
SOURCES = "one of -f FILE, -j JSON, -, --array, --each-line, --retry-failed and a job script"
STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """Where a campaign comes from, as the command line says."""

    path: str | None
    text: str | None
    numbers: str | None
    lines: str | None
    retried: int | None
    words: tuple[str, ...]
    wishes: Wishes

    @property
    def is_nothing(self) -> bool:
        """Whether no campaign is named, and nothing of one."""
        options = (self.path, self.text, self.numbers, self.lines, self.retried)
        plain = Wishes(type_=Type.DEFAULT.value)
        return not (self.words or any(each is not None for each in options)) and (
            self.wishes == plain
        )

    def read(self) -> Said:
        """Return the campaign; a usage error unless it comes from one place."""
        options = (self.path, self.text, self.numbers, self.lines, self.retried)
        is_command = self.numbers is not None or self.lines is not None
        alone = bool(self.words) and not is_command
        if sum(each is not None for each in options) + alone != 1:
            raise click.UsageError(SOURCES)
        if is_command:
            return self._command()
        if alone and self.words[0] != STANDARD_INPUT:
            file = self.words[0]
            text = _text_of(file)
            return campaign_sources.script(file, text, self.words[1:], self.wishes)
        if len(self.words) > 1:
            raise click.UsageError(SOURCES)
        self._refuse_wishes()
        if self.retried is not None:
            return campaign_sources.failed(self.retried)
        source = JSON_TEXT if self.text is not None else self.path or STANDARD_INPUT
        text = self.text if self.text is not None else _text_of(source)
        return campaign_sources.read(source, text, self.wishes.type_)

    def _command(self) -> Said:
        if not self.words:
            raise click.UsageError("a command after --: gridsub --array 1-9 -- CMD {}")
        if self.numbers is not None:
            return campaign_sources.array(self.numbers, self.words, self.wishes)
        file = "/dev/stdin" if self.lines == STANDARD_INPUT else str(self.lines)
        return campaign_sources.each_line(file, self.words, self.wishes)

    def _refuse_wishes(self) -> None:
        if self.wishes != Wishes(type_=self.wishes.type_):
            raise click.UsageError(
                "--clusters, -l, -N and --idempotent go without a JDL, which says it itself"
            )


def _named(context: click.Context, _: click.Parameter, clusters: str) -> str:
    """Refuse names of clusters that come to none: that would be all of them."""
    is_said = context.get_parameter_source("clusters") is ParameterSource.COMMANDLINE
    if is_said and not clusters.strip(" ,"):
        raise click.UsageError(f"--clusters {clusters!r}: no cluster; a,b")
    return clusters


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "allow_interspersed_args": False,  # what follows a job script is its own
    }
)
@click.option("-f", "path", metavar="FILE", help="A JDL file, JSON or TOML; - is standard input.")
@click.option("-j", "text", metavar="JSON", help="The JDL itself.")
@click.option("-c", "added_to", metavar="ID", type=int, help="Add tasks to this campaign.")
@click.option(
    "-F", "added_file", metavar="FILE", help="With -c: a line a task; - is standard input."
)
@click.option("-J", "added_text", metavar="JSON", help='With -c: ["FIRST TASK", ...].')
@click.option("--array", "numbers", metavar="N-M[:STEP]", help="Run a command for each number.")
@click.option(
    "--each-line", "lines", metavar="FILE", help="Run a command for each line that is not blank."
)
@click.option(
    "--retry-failed", "retried", metavar="ID", type=int, help="The failed tasks of this campaign."
)
@click.option(
    "--clusters",
    metavar="A,B",
    default="",
    callback=_named,
    help="Without a JDL: where; else anywhere.",
)
@click.option(
    "-l",
    "resources",
    metavar="WHAT",
    multiple=True,
    help="Without a JDL: of each task, /core=4,walltime=1:0:0 or h_rt=600.",
)
@click.option("-N", "name", metavar="NAME", default="", help="Without a JDL: the campaign's name.")
@click.option(
    "-t",
    "type_",
    type=click.Choice([each.value for each in Type]),
    default=Type.DEFAULT.value,
    help="test sends one task to each cluster.",
)
@click.option(
    "--idempotent",
    "is_idempotent",
    is_flag=True,
    help="Without a JDL: a task may run twice at the same time.",
)
@click.option("--check", "is_check", is_flag=True, help="Say what would become of it; store none.")
@click.option("--wait", "is_wait", is_flag=True, help="Wait for its end: 1 unless all succeed.")
@click.option("--ready", "is_ready", is_flag=True, hidden=True)  # from a login node
@click.option("-d", "is_debug", is_flag=True, help="Show where an unexpected error came from.")
@click.argument("words", metavar="[-|SCRIPT [WORD...]|-- CMD [WORD...]]", nargs=-1)
def gridsub(
    path: str | None,
    text: str | None,
    added_to: int | None,
    added_file: str | None,
    added_text: str | None,
    numbers: str | None,
    lines: str | None,
    retried: int | None,
    clusters: str,
    resources: tuple[str, ...],
    name: str,
    type_: str,
    is_idempotent: bool,
    is_check: bool,
    is_wait: bool,
    is_ready: bool,
    is_debug: bool,
    words: tuple[str, ...],
) -> int:
    """Submit a campaign: tasks that differ by their parameters alone, run where there is room.

    It is a JDL, or a command for each number or line, in which {} stands for that number or line
    (without {} it comes last), or a job script with the #$ lines of qsub, whose -t numbers the
    tasks. Nothing in a line is run. Or tasks are added to a campaign of one's own that goes on.

    Exit status: 0; 1 refused, and every mistake is told, or with --wait not all tasks succeeded; 2
    usage; 75 nobody takes campaigns now, and nothing is stored.

    \b
    Example:
      gridsub -f sweep.json
      gridsub -j '{"name": "a", "nb_jobs": 9, "exec_file": "hostname", "clusters": {"beta": {}}}'
      gridsub --array 1-1000 -l h_rt=0:10:0 -- ./simulate --seed {}
      gridsub --each-line images.txt --clusters beta,gamma -- convert {} {}.png
      gridsub --wait job.sh
      gridsub --check -f sweep.json
      gridsub --retry-failed 12
      gridsub -c 12 -F more.txt
    """
    wishes = Wishes(
        clusters=clusters,
        resources=resources,
        name=name,
        type_=type_,
        is_idempotent=is_idempotent,
    )
    typed = Typed(
        path=path,
        text=text,
        numbers=numbers,
        lines=lines,
        retried=retried,
        words=words,
        wishes=wishes,
    )
    try:
        if added_to is not None:
            return _add(typed, added_to, added_file, added_text, is_check, is_wait)
        if (added_file, added_text) != (None, None):
            raise click.UsageError(adding.USAGE)
        said = _sent_here() if is_ready else typed.read()
        for warning in said.warnings:
            output.complain(f"gridsub: {warning}")
        if there := onward.host(CAMPAIGNS):
            return _go_on(there, said, is_check, is_wait)
        if is_check:
            return checking.check(said)
        number = campaigns.submit(campaign_check.require_admitted(said))
    except (ConfigError, NotTheirs, Refused) as error:
        return _ended(error, REFUSED, is_debug)
    except Unreachable as error:
        return _ended(error, UNREACHABLE, is_debug)
    output.line("Campaign successfully submitted")
    output.line(f"CAMPAIGN_ID={number}")
    return _waited(number, is_wait)


def _add(
    typed: Typed, number: int, file: str | None, text: str | None, is_check: bool, is_wait: bool
) -> int:
    if not typed.is_nothing or (file is None) == (text is None):
        raise click.UsageError(adding.USAGE)
    if there := onward.host(CAMPAIGNS):
        return _go_on_adding(there, number, file, text, is_check, is_wait)
    adding.add(number, file, text, is_check=is_check)
    return _waited(number, is_wait and not is_check)


def _go_on_adding(
    there: str, number: int, file: str | None, text: str | None, is_check: bool, is_wait: bool
) -> int:
    words = ["-c", str(number), *(("-F", "-") if file is not None else ("-J", str(text)))]
    words += ["--check"] * is_check + ["--wait"] * is_wait
    lines = None if file is None else _text_of(file).encode("utf-8", "surrogateescape")
    return onward.go(there, "gridsub", words, UNREACHABLE, lines)


def _waited(number: int, is_wait: bool) -> int:
    output.finish()
    return waiting.wait(number) if is_wait else 0


def _sent_here() -> Said:
    """Return the campaign that a login node has read, from standard input."""
    return campaign_sources.ready(sys.stdin.buffer.read())


def _go_on(there: str, said: Said, is_check: bool, is_wait: bool) -> int:
    """Have a campaign brought where it can be; all that it needs of this host goes with it."""
    words = ["--ready"] + ["--check"] * is_check + ["--wait"] * is_wait
    return onward.go(there, "gridsub", words, UNREACHABLE, campaign_sources.encoded(said))


def _text_of(path: str) -> str:
    """Return the text of a JDL or script; a usage error where there is none."""
    try:
        data = _bytes_of(path)
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


def _ended(error: GridbridgeError, status: int, is_debug: bool) -> int:
    if is_debug:
        raise error
    for line in str(error).splitlines():
        output.complain(f"gridsub: {line}")
    return status


def main() -> None:
    """Run it."""
    program.run(gridsub, "gridsub")
