"""The forms of qsub's `#$` lines: words, options, and values of options (qsub(1)).

qsub of Grid Engine 8.1.9 refuses a value that does not match its form.
"""

import re
from collections.abc import Mapping

WORD = re.compile(r"""(?:[^ \t"']|"[^"]*"?|'[^']*'?)+""")
YES, NO = ("y", "yes"), ("n", "no")
YES_OR_NO = r"(?i:y|yes|n|no)"
ANY, SOME = r"(?s:.*)", r"(?s:.+)"
DATE = (
    r"(?:\d\d)?(?:\d\d)?(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d"
    r"(?:\.[0-5]\d)?"
)
VARIABLES = r"[^=,]+(?:=[^,]*)?(?:,[^=,]+(?:=[^,]*)?)*"
PLACES = ("env", "pe", "set")  # of -binding: a word before its value
# Options that change nothing in a campaign, with the form of their value; none: no value.
IDLE: Mapping[str, str | None] = {
    **dict.fromkeys(("-V", "-h", "-notify", "-terse", "-verify", "-clear")),
    **dict.fromkeys(("-A", "-C", "-P", "-ckpt", "-jsv", "-u"), ANY),
    **dict.fromkeys(("-M", "-masterq", "-q"), SOME),
    **dict.fromkeys(("-now", "-pty", "-R", "-r", "-shell", "-sync"), YES_OR_NO),
    **dict.fromkeys(("-a", "-dl"), DATE),
    **dict.fromkeys(("-ac", "-sc"), VARIABLES),
    "-binding": r"(?:linear|striding:\d+:\d+|explicit:\d+,\d+)(?:[:,]\w+)*",
    "-c": r"[nsmxr]+|[\d:]+",
    "-dc": SOME,
    "-js": r"\d+(?:\.\d*)?",
    "-m": "[abens]+",
    "-p": r"[+-]?0*(?:\d{1,3}|10[01]\d|102[0-3])|\+?0*1024",
    "-w": "[enpvw]",
}
LATER = ("-hold_jid", "-hold_jid_ad", "-ar", "-@")  # each with a value; refused
NAME = re.compile(r"(?!\d)(?i:(?!(?:all|none|template)$))[!-~]{1,512}")
NOT_IN_NAMES = frozenset("/:@*?\\")
NAMED = "1 to 512 ASCII characters without blanks and /:@*?\\, the first not a digit"


def words_of(line: str) -> list[str]:
    """Split the text behind `#$`: up to the next `#`, at blanks outside of quotation marks.

    All quotation marks are removed, also nested ones, and the last may stay open. A backslash is a
    character like any other.
    """
    text = line.partition("#")[0].strip()
    return [word.replace('"', "").replace("'", "") for word in WORD.findall(text)]


def is_yes(word: str) -> bool | None:
    """Read `y`, `yes`, `n` or `no` in any case of letters; None for other words."""
    low = word.lower()
    return low in YES if low in (*YES, *NO) else None


def is_name(text: str) -> bool:
    """Say whether qsub takes a text as a job's name."""
    return bool(NAME.fullmatch(text)) and not NOT_IN_NAMES.intersection(text)


def has_form(option: str, value: str) -> bool:
    """Say whether qsub takes a value of an option that changes nothing here."""
    return bool(re.fullmatch(IDLE[option] or "", value, re.ASCII))
