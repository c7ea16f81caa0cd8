"""Fills the parameters of a task into patterns of input and output files.

In a pattern `{}` stands for a task's whole line of parameters, `{1}` for its first word. Keep imports few, because
root's helper loads this module.
"""

from gridbridge.model.campaigns.campaign_file_and_array_names import split_task_parameters

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
AFTER_FIRST = LETTERS.union(".+-")  # characters of an output's name after its first character


def has_placeholder(pattern: str) -> bool:
    return "{" in pattern


def fill_placeholders(pattern: str, line: str, convert: "Callable[[str], str]" = str) -> str:
    """Replace each placeholder by the converted words of a task; raise ValueError if the task has too few words."""
    if not has_placeholder(pattern):
        return pattern
    words = (line, *split_task_parameters(line))

    def word_of_task(index: int) -> str:
        if index >= len(words):
            raise ValueError(f"the task has no word {index}, so {{{index}}} has no value")
        return convert(words[index])

    return _replace_placeholders(pattern, word_of_task)


def _replace_placeholders(pattern: str, value: "Callable[[int], str]") -> str:
    filled, *parts = pattern.split("{")
    for part in parts:
        number, brace, rest = part.partition("}")
        is_placeholder = brace and (not number or (number.isascii() and number.isdigit() and len(number) < 5))
        filled += f"{value(int(number or 0))}{rest}" if is_placeholder else f"{{{part}"
    return filled


def is_output_pattern(pattern: str) -> bool:
    """Say whether a pattern would be the valid name of an output file, if each placeholder were a letter."""
    return is_valid_output_path(_replace_placeholders(pattern, lambda _: "x"))


def is_valid_output_path(name: str) -> bool:
    """Say whether a name is a relative path that sh reads without quotation marks, and that names no hidden file."""
    return all(part[:1] in LETTERS and AFTER_FIRST.issuperset(part) for part in name.split("/"))


def targets_of_outputs(patterns: "Iterable[str]", task: int, line: str) -> "Iterator[tuple[str, str]]":
    """Yield each output's path in the task's folder and in the folder `outputs_to`; raise ValueError.

    An output without a placeholder comes into a folder with the task's number. An output is left out if it lies in
    another output, which is a folder.
    """
    names = [(name, pattern) for pattern in patterns for name in output_names_of_task((pattern,), line)]
    for name, pattern in names:
        if not any(name.startswith(f"{other}/") for other, _ in names):
            yield name, name if has_placeholder(pattern) else f"{task}/{name}"


def output_names_of_task(patterns: "Iterable[str]", line: str) -> tuple[str, ...]:
    """Return the paths of a task's output files in its folder; raise ValueError for an invalid name."""
    names = tuple(dict.fromkeys(fill_placeholders(pattern, line) for pattern in patterns))
    for name in names:
        if not is_valid_output_path(name):
            raise ValueError(f"{name:.80}: expected a relative path of letters, digits and _.+-")
    return names
