"""The input files of a campaign's tasks, and how the lines of a campaign file list them.

A task's line has its parameters, then a NUL and a JSON list with a row for each input file. Keep imports few,
because hot programs load this module.
"""

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterable

END_OF_PARAMETERS = "\0"
MADE_LATER = -1  # size of a file that a predecessor makes; such a file has a random name as checksum
MOST_INPUTS = 10_000  # largest number of input files of one task
CARRIED_INPUTS = ".gridbridge/inputs"  # in the owner's home at a cluster: a link to the folder of carried files


class TaskInputFile:
    """One input file of a task, as gridsub found the file."""

    __slots__ = ("digest", "name", "path", "size_bytes")

    def __init__(self, name: str, path: str, size_bytes: int, digest: str) -> None:
        self.name = name  # path in the task's folder, such as reads/7.fq
        self.path = path  # absolute path on the host of gridsub
        self.size_bytes = size_bytes
        self.digest = digest  # SHA-256 of the content, in hexadecimal digits

    @property
    def is_made_by_predecessor(self) -> bool:
        return self.size_bytes == MADE_LATER


def task_line_with_inputs(parameters: str, inputs: "Iterable[TaskInputFile]") -> str:
    """Return a task's line for the campaign file; without inputs these are the parameters alone."""
    import json

    rows = [[file.name, file.path, file.size_bytes, file.digest] for file in inputs]
    return f"{parameters}{END_OF_PARAMETERS}{json.dumps(rows)}" if rows else parameters


def parse_inputs_of_task_line(line: str) -> tuple[TaskInputFile, ...]:
    """Return a task's input files; raise ValueError for a wrong list: owners can write the file by hand."""
    _, separator, text = line.partition(END_OF_PARAMETERS)
    if not separator:
        return ()
    import json

    rows = json.loads(text)
    if not isinstance(rows, list) or len(rows) > MOST_INPUTS or not all(map(_is_input_row, rows)):
        raise ValueError(f"{text:.80}: not a list of input files")
    return tuple(TaskInputFile(*row) for row in rows)


def _is_input_row(row: object) -> bool:
    if not isinstance(row, list) or [type(value) for value in row] != [str, str, int, str]:
        return False
    name, path, size_bytes, digest = row
    is_digest = len(digest) == 64 and all(digit in "0123456789abcdef" for digit in digest)
    return is_inside_name(name) and path[:1] == "/" and "\0" not in path and size_bytes >= MADE_LATER and is_digest


def is_inside_name(name: str) -> bool:
    """Say whether a relative path stays inside the folder where it begins."""
    return bool(name) and "\0" not in name and not {"", ".", ".."}.intersection(name.split("/"))
