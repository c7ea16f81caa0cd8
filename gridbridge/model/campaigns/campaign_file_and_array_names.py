"""Names of campaign files and arrays, and how a line of task parameters is split into words.

A held array has the job name `gc.<site>.<campaign>.<array>`; a released array keeps this name as its account
string (`qsub -A`). Keep imports few, because hot programs load this module.
"""

from gridbridge.errors import ParseError
from gridbridge.model.transfer_name import is_valid_cluster_name

PREFIX = "gc"
RELEASED = "campaign"
ADDS_TO = "adds_to"  # JSON key in a campaign file: number of the campaign to which the file adds tasks
INPUT_GROUPS = "input_groups"  # JSON key in a campaign file: ranges of tasks that share a large input file
HOME = "$HOME"  # begins the path of a working folder in the owner's home
UNIQUE = "token"  # JSON key in a campaign file: a random word that makes each file unique
USUAL_CHECKPOINT_S = 900  # seconds between two checkpoints before the first measurement
LEAST_CHECKPOINT_S, MOST_CHECKPOINT_S = 30, 86_400  # bounds of the intervals that the service chooses
SPECIAL = frozenset("'\"\\")  # quoting characters of sh
# Patterns of lines with quoting characters, as shlex.split reads such lines; shlex itself takes 3 to 10 times as long.
# Module re, which few campaigns need, is slow to import; re keeps the compiled patterns.
QUOTED_WORD = r"""(?s:[^ \t\r\n'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+"""
CLOSED_LINE = rf"[ \t\r\n]*(?:{QUOTED_WORD}(?:[ \t\r\n]+|\Z))*\Z"
WORD_PART = r"""(?s:\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)"|([^'"\\]+))"""  # \x, '...', "..." or plain text
ESCAPED_IN_QUOTES = r"""\\(["\\])"""
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


def campaign_folder_at_cluster(directory: str, campaign: int, home: str) -> str:
    """Return the folder that a campaign's tasks make in their working folder; `home` may be `.` over ssh."""
    is_home = not directory or directory.startswith(HOME)
    path = directory.removeprefix(HOME).strip("/") if is_home else directory
    base = f"{home}/{path}".rstrip("/") if is_home or not path.startswith("/") else path
    return f"{base}/campaign.{campaign}"


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
    import re

    return tuple(map(_word_without_quotes, re.findall(QUOTED_WORD, line)))


def has_closed_quotes(line: str) -> bool:
    if SPECIAL.isdisjoint(line):
        return True
    import re

    return re.match(CLOSED_LINE, line) is not None


def first_task_parameter(line: str) -> tuple[str, int]:
    """Return the first word of a line of task parameters, and the position where the word ends."""
    if SPECIAL.isdisjoint(line):
        first = line.translate(BLANKS).partition(" ")[0]
        return first, len(first)
    import re

    if has_closed_quotes(line) and (word := re.search(QUOTED_WORD, line)):
        return _word_without_quotes(word[0]), word.end()
    first = line.split()[0]
    return first, line.index(first) + len(first)


def _word_without_quotes(word: str) -> str:
    if SPECIAL.isdisjoint(word):
        return word
    import re

    return "".join(
        escaped or single or re.sub(ESCAPED_IN_QUOTES, r"\1", double) or plain
        for escaped, single, double, plain in re.findall(WORD_PART, word)
    )
