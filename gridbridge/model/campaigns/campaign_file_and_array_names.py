"""Names of campaign files and arrays, and how a line of task parameters is split into words.

A held array has the job name `gc.<site>.<campaign>.<array>`; a released array keeps this name as its account
string (`qsub -A`). Keep imports few, because hot programs load this module.
"""

from gridbridge.errors import ParseError
from gridbridge.model.transfer_name import is_valid_cluster_name

TYPE_CHECKING = False  # importing the module typing would be slow
if TYPE_CHECKING:
    from re import Pattern

PREFIX = "gc"
RELEASED = "campaign"
ADDS_TO = "adds_to"  # JSON key in a campaign file: number of the campaign to which the file adds tasks
UNIQUE = "token"  # JSON key in a campaign file: a random word that makes each file unique
SPECIAL = frozenset("'\"\\")  # quoting characters of sh
BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")  # sh splits words only at blanks, tabs and line ends


def campaign_file_name(campaign: int, part: int = 0) -> str:
    """Return a campaign file's name; `part` is 0 for the first file, else the additional file's number."""
    return f"c.{campaign}.{part}" if part else f"c.{campaign}"


def released_array_name(campaign: int) -> str:
    return f"{RELEASED}.{campaign}"


def is_campaign_job_name(name: str) -> bool:
    """Say whether a job name belongs to an array of a campaign, held or released."""
    word, _, number = name.partition(".")
    is_released = word == RELEASED and number.isascii() and number.isdigit()
    return is_released or (word == PREFIX and is_campaign_array_name(name))


class CampaignArrayId:
    """The site, campaign and number of an array; `str()` returns the array's job name."""

    __slots__ = ("array", "campaign", "site")

    def __init__(self, site: str, campaign: int, array: int) -> None:
        self.site = site
        self.campaign = campaign
        self.array = array

    def __str__(self) -> str:
        return f"{PREFIX}.{self.site}.{self.campaign}.{self.array}"


def parse_campaign_array_name(name: str) -> CampaignArrayId:
    """Parse a held array's job name, gc.<site>.<campaign>.<array>; raise ParseError for other names."""
    parts = name.split(".")
    is_ours = len(parts) == 4 and parts[0] == PREFIX and is_valid_cluster_name(parts[1])
    if not is_ours or not all(part.isascii() and part.isdigit() for part in parts[2:]):
        raise ParseError(f"{name!r} is not gc.<site>.<campaign>.<array>")
    return CampaignArrayId(parts[1], int(parts[2]), int(parts[3]))


def is_campaign_array_name(name: str) -> bool:
    """Say whether a job name is that of a held array, gc.<site>.<campaign>.<array>."""
    try:
        parse_campaign_array_name(name)
    except ParseError:
        return False
    return True


def split_task_parameters(line: str) -> tuple[str, ...]:
    """Split a line of task parameters into words as sh does; variables and wildcards stay as they are."""
    if SPECIAL.isdisjoint(line):
        return tuple(word for word in line.translate(BLANKS).split(" ") if word)
    if not has_closed_quotes(line):
        return tuple(line.split())
    return tuple(map(_word_without_quotes, QuotedWordPatterns.load().word.findall(line)))


def has_closed_quotes(line: str) -> bool:
    return SPECIAL.isdisjoint(line) or QuotedWordPatterns.load().line.match(line) is not None


def first_task_parameter(line: str) -> tuple[str, int]:
    """Return the first word of a line of task parameters, and the position where the word ends."""
    if SPECIAL.isdisjoint(line):
        first = line.translate(BLANKS).partition(" ")[0]
        return first, len(first)
    if has_closed_quotes(line) and (word := QuotedWordPatterns.load().word.search(line)):
        return _word_without_quotes(word[0]), word.end()
    first = line.split()[0]
    return first, line.index(first) + len(first)


class QuotedWordPatterns:
    """Patterns of words with sh's quoting characters, compiled at their first use: most campaigns use no quotes.

    The patterns agree with shlex.split, which takes 30 times as long.
    """

    word: "Pattern[str]"  # a word with its quoting characters
    line: "Pattern[str]"  # a line without an unclosed quotation mark or a last backslash
    part: "Pattern[str]"  # a part of a word: an escaped character, '...', "..." or plain text
    escape: "Pattern[str]"  # a backslash that escapes a character within "..."
    _loaded: "QuotedWordPatterns | None" = None

    @classmethod
    def load(cls) -> "QuotedWordPatterns":
        if cls._loaded is None:
            import re

            cls._loaded = patterns = cls()
            word = r"""(?:[^ \t\r\n'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+"""
            patterns.word = re.compile(word, re.DOTALL)
            patterns.line = re.compile(rf"[ \t\r\n]*(?:{word}(?:[ \t\r\n]+|\Z))*\Z", re.DOTALL)
            patterns.part = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)"|([^'"\\]+)""", re.DOTALL)
            patterns.escape = re.compile(r"""\\(["\\])""")
        return cls._loaded


def _word_without_quotes(word: str) -> str:
    if SPECIAL.isdisjoint(word):
        return word
    patterns = QuotedWordPatterns.load()
    parts = patterns.part.findall(word)
    return "".join(
        escaped or single or patterns.escape.sub(r"\1", double) or plain for escaped, single, double, plain in parts
    )
