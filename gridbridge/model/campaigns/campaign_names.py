"""The names of a campaign's files, of an array of its tasks, and of a task.

An array is submitted held under its name, gc.<site>.<campaign>.<array>, which is its account
(`qsub -A`) for ever. Its parts are letters, digits and `-`, as in the name of a transfer. A task's
name is the first word of its parameters. Hot programs load this module.
"""

from gridbridge.errors import ParseError
from gridbridge.model.ids import is_cluster_name

PREFIX = "gc"
RELEASED = "campaign"
ADDS_TO = "adds_to"  # of a part's first line: the campaign whose tasks it adds to
UNIQUE = "token"  # in a first line: a random word, so that no two files are alike
SPECIAL = frozenset("'\"\\")  # to sh, in a line of parameters
BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")  # to sh: those of Unicode are none


def file_of(campaign: int, part: int = 0) -> str:
    """Return how the file of a campaign is called, or that of a part, from 1."""
    return f"c.{campaign}.{part}" if part else f"c.{campaign}"


def released_name(campaign: int) -> str:
    """Return the name of a campaign's arrays from their release on, where one can be given."""
    return f"{RELEASED}.{campaign}"


def is_of_campaign(name: str) -> bool:
    """Say whether a job of this name is an array of a campaign's, held still or released."""
    word, _, number = name.partition(".")
    is_released = word == RELEASED and number.isascii() and number.isdigit()
    return is_released or (word == PREFIX and is_array(name))


class ArrayId:
    """One array of tasks of one campaign, as it was submitted to one cluster."""

    __slots__ = ("array", "campaign", "site")

    def __init__(self, site: str, campaign: int, array: int) -> None:
        self.site = site
        self.campaign = campaign
        self.array = array

    def __str__(self) -> str:
        return f"{PREFIX}.{self.site}.{self.campaign}.{self.array}"


def parse_array(name: str) -> ArrayId:
    """Read an array's name; ParseError for anything else."""
    parts = name.split(".")
    is_ours = len(parts) == 4 and parts[0] == PREFIX and is_cluster_name(parts[1])
    if not is_ours or not all(part.isascii() and part.isdigit() for part in parts[2:]):
        raise ParseError(f"{name!r} is not gc.<site>.<campaign>.<array>")
    return ArrayId(parts[1], int(parts[2]), int(parts[3]))


def is_array(name: str) -> bool:
    """Say whether this is an array's name."""
    try:
        parse_array(name)
    except ParseError:
        return False
    return True


def words(line: str) -> tuple[str, ...]:
    """Split a line of parameters as sh would, but nothing in it is run."""
    if SPECIAL.isdisjoint(line):
        return tuple(word for word in line.translate(BLANKS).split(" ") if word)
    import shlex  # ten times as slow, and few campaigns have quotation marks

    try:
        return tuple(shlex.split(line))
    except ValueError:  # a quotation mark that stands alone
        return tuple(line.split())


def is_closed(line: str) -> bool:
    """Say whether all quotation marks of a line are closed, so that it is split as by sh."""
    if SPECIAL.isdisjoint(line):
        return True
    import shlex

    try:
        shlex.split(line)
    except ValueError:
        return False
    return True


def first_word(line: str) -> tuple[str, int]:
    """Return the first word of a line that begins with it, and where it ends in the line."""
    if SPECIAL.isdisjoint(line):
        first = line.translate(BLANKS).partition(" ")[0]
        return first, len(first)
    import io
    import shlex

    letters = io.StringIO(line)
    reader = shlex.shlex(letters, posix=True)
    reader.whitespace_split, reader.commenters = True, ""  # as shlex.split has it
    try:
        first, end = reader.get_token() or "", letters.tell()
        list(reader)
    except ValueError:
        first = line.split()[0]
        return first, line.index(first) + len(first)
    return first, end - (line[end - 1] in reader.whitespace)
