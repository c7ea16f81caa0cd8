"""Names of tasks: the first word of a task's parameters, which no other of its campaign has."""

from gridbridge.model.campaigns.campaign_names import first_word, is_closed
from gridbridge.model.status_report import count


def named_once(lines: tuple[str, ...], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Give each line a first word that no other has: the second `a` is `a#2`."""
    names = {first_word(line)[0] for line in before}
    counts: dict[str, int] = {}
    return tuple(_renamed(line, names, counts) for line in lines)


def rename_warning(lines: tuple[str, ...], named: tuple[str, ...]) -> str:
    """Say which lines another word was given; empty where none was."""
    renamed = [new for line, new in zip(lines, named, strict=True) if new != line]
    if not renamed:
        return ""
    tasks = count(len(renamed), "task")
    return f"{tasks} with a first word that comes again, so it got a number: {renamed[0]:.80}"


def left_open(lines: tuple[str, ...]) -> str:
    """Return a warning about lines with an unclosed quotation mark; empty without such lines."""
    open_lines = [line for line in lines if not is_closed(line) and len(line.split()) > 1]
    if not open_lines:
        return ""
    tasks = count(len(open_lines), "task")
    wrong = "an unclosed quotation mark: each blank there ends a word"
    return f"{tasks} with {wrong}, and all marks belong to the words: {open_lines[0]:.80}"


def _renamed(line: str, names: set[str], counts: dict[str, int]) -> str:
    first, end = first_word(line)
    name = first
    while name in names:
        counts[first] = counts.get(first, 1) + 1
        name = f"{first}#{counts[first]}"
    names.add(name)
    return line[:end] + name.removeprefix(first) + line[end:]
