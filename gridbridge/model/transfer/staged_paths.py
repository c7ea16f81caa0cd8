"""Path lists that a job declares to be carried to its remote cluster and back.

`stage_in=params.txt:mesh:/data/ref.fa,stage_out=result.dat` in a job's context (qsub(1) -ac). A
colon separates paths. `%XX` encodes a byte such as a colon in a name, or a comma or quote, which
qsub interprets. Programs load this module only for jobs with such lists.
"""

from gridbridge.errors import UnstageablePaths

IN, OUT = "stage_in", "stage_out"
BETWEEN = ":"
HERE = "."  # path that stands for the whole working directory
CODED = "%2C is a comma, %3A a colon, %25 a percent sign"


def job_stage_in_and_out_paths(stage_in: str, stage_out: str, context: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return a job's input and output path lists: its context's, else its queue's."""
    declared = dict(context)
    return {IN: declared.get(IN, stage_in), OUT: declared.get(OUT, stage_out)}


def decode_staging_path_list(key: str, text: str) -> tuple[str, ...]:
    """Decode a list of paths to carry; UnstageablePaths names an invalid path."""
    decoded = tuple(_decoded(key, word) for word in text.split(BETWEEN)) if text else ()
    for path in decoded:
        _refuse(key, path)
    return decoded


def path_in_remote_job_folder(path: str) -> str:
    """Return a carried path's name relative to the job's remote working directory.

    A relative path stays as it is; an absolute path becomes its last component.
    """
    parts = [part for part in path.split("/") if part not in ("", HERE)]
    return parts[-1] if path.startswith("/") else "/".join(parts) or HERE


def staging_path_list_problem(key: str, text: str) -> str:
    """Describe the problem of a declared path list; '' for a valid list."""
    try:
        names = [path_in_remote_job_folder(path) for path in decode_staging_path_list(key, text)]
    except UnstageablePaths as error:
        return str(error)
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"{key}: two paths have the same remote name {twice[0]!r}" if twice else ""


def _decoded(key: str, word: str) -> str:
    head, *coded = word.encode("utf-8", "surrogateescape").split(b"%")
    try:
        raw = head + b"".join(bytes((int(part[:2], 16),)) + part[2:] for part in map(_hex, coded))
    except ValueError:
        wrong = f"{key}={word}: % has to be followed by two hexadecimal digits; {CODED}"
        raise UnstageablePaths(wrong) from None
    return raw.decode("utf-8", "surrogateescape")


def _hex(part: bytes) -> bytes:
    """Check the two hexadecimal digits after a percent sign; int() would accept `+1`."""
    if not part[:2].isalnum() or len(part) < 2:
        raise ValueError(part)
    return part


def _refuse(key: str, path: str) -> None:
    parts = path.split("/")
    if "\0" in path or not path or not any(parts):
        raise UnstageablePaths(f"{key}: {path!r} is no path of a file or folder")
    if ".." in parts:
        raise UnstageablePaths(f"{key}: {path!r} leads out with ..; a path below the working directory")
    if key == OUT and path.startswith("/"):
        raise UnstageablePaths(f"{key}: {path!r} is absolute; a path below the working directory")
