"""Decode and check the lists of files that are copied to a job's remote cluster and back home.

Context (qsub(1) -ac): `stage_in=params.txt:/data/ref.fa,stage_out=result.dat`. `%XX` encodes a byte that would
end a path or that qsub interprets, such as a colon or a comma.
"""

from gridbridge.errors import UnstageablePaths

IN, OUT = "stage_in", "stage_out"
PATH_SEPARATOR = ":"
WHOLE_WORKING_DIRECTORY = "."
HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
PERCENT_CODE_EXAMPLES = "%2C is a comma, %3A a colon, %25 a percent sign"


def job_stage_in_and_out_paths(stage_in: str, stage_out: str, context: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return a job's input and output path lists, from the job's context or else its queue's defaults."""
    declared = dict(context)
    return {IN: declared.get(IN, stage_in), OUT: declared.get(OUT, stage_out)}


def decode_staging_path_list(key: str, text: str) -> tuple[str, ...]:
    """Decode a list of paths to copy; raise UnstageablePaths for an invalid path."""
    decoded = tuple(_decode_percent_codes(key, word) for word in text.split(PATH_SEPARATOR)) if text else ()
    for path in decoded:
        parts = path.split("/")
        if "\0" in path or not path or not any(parts):
            raise UnstageablePaths(f"{key}: {path!r} is no path of a file or folder")
        if ".." in parts:
            raise UnstageablePaths(f"{key}: {path!r} contains ..; expected a path below the working directory")
        if key == OUT and path.startswith("/"):
            raise UnstageablePaths(f"{key}: {path!r} is absolute; expected a path below the working directory")
    return decoded


def path_in_remote_job_folder(path: str) -> str:
    """Return a copied path's remote name: the relative path, or the last part of an absolute path."""
    parts = [part for part in path.split("/") if part not in ("", WHOLE_WORKING_DIRECTORY)]
    return parts[-1] if path.startswith("/") else "/".join(parts) or WHOLE_WORKING_DIRECTORY


def staging_path_list_problem(key: str, text: str) -> str:
    try:
        names = [path_in_remote_job_folder(path) for path in decode_staging_path_list(key, text)]
    except UnstageablePaths as error:
        return str(error)
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"{key}: two paths have the same remote name {twice[0]!r}" if twice else ""


def _decode_percent_codes(key: str, word: str) -> str:
    head, *coded = word.encode("utf-8", "surrogateescape").split(b"%")
    if not all(len(part) >= 2 and HEX_DIGITS.issuperset(part[:2]) for part in coded):
        raise UnstageablePaths(f"{key}={word}: expected two hexadecimal digits after %; {PERCENT_CODE_EXAMPLES}")
    raw = head + b"".join(bytes((int(part[:2], 16),)) + part[2:] for part in coded)
    return raw.decode("utf-8", "surrogateescape")
