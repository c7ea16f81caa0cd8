"""Reads secrets from files that nobody else can read."""

import configparser
import os

from gridbridge.errors import ProviderFailed, StateError
from gridbridge.shell import files

MOST_BYTES = 65536
OTHERS = 0o077  # of a file's mode


def table(path: str) -> dict[str, str]:
    """Return the lines `name = value` below [default]; ProviderFailed unless only we can read it.

    AWS's own programs keep theirs in such a file. Nothing of it is in any message.
    """
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    try:
        parser.read_string(secret(path))
        return dict(parser["default"])
    except (configparser.Error, KeyError) as error:
        right = "a line [default], and lines NAME = VALUE below it"
        raise ProviderFailed(f"{path}: not as it has to be: {right}") from error


def secret(path: str) -> str:
    """Return a file's text without its end; ProviderFailed unless only we can read it."""
    try:
        raw, facts = files.read(path, MOST_BYTES, os.geteuid())
        if facts.st_mode & OTHERS:
            raise ProviderFailed(f"{path}: others can read it; chmod 600 {path}")
        return raw.decode().rstrip("\n")
    except FileNotFoundError as error:
        raise ProviderFailed(f"{path}: {error.strerror}") from error
    except StateError as error:
        raise ProviderFailed(str(error)) from error
    except UnicodeDecodeError as error:
        raise ProviderFailed(f"{path}: no UTF-8") from error
