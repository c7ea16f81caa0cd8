"""Says whether a file that was named as a job script is a JDL, which sh must not run."""

import json
import tomllib

from gridbridge.campaigns.submission.jdl_lines import is_json
from gridbridge.campaigns.submission.jdl_reader import CLUSTERS
from gridbridge.campaigns.submission.jdl_values import PARAMETERS

TELLING = frozenset({"name", CLUSTERS, "exec_file", *PARAMETERS})  # keys of a JDL, one is enough
TOML_LETTERS = 60_000  # a longer script is refused anyway


def is_jdl(text: str) -> bool:
    """Say whether a text is a JSON object, or TOML with a key of a JDL.

    A script that begins with `#!` is none, though all of it may be comments and settings.
    """
    if text.startswith("#!"):
        return False
    try:
        if is_json(text):
            return isinstance(json.loads(text), dict)
        table = tomllib.loads(text) if len(text) <= TOML_LETTERS else {}
    except (ValueError, RecursionError):
        return False
    return any(key.lower() in TELLING for key in table)
