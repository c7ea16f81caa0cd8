"""Read secrets from files that no other account can read."""

import configparser
import os

from gridbridge.errors import ProviderPermanentFailure, StateError
from gridbridge.shell import safe_files

MOST_SECRET_BYTES = 65536
OTHERS = 0o077  # mode bits of group and others


def read_private_credentials(path: str) -> dict[str, str]:
    """Read the `name = value` lines below [default] of a private credentials file.

    The format is that of AWS's own tools. Error messages never contain the values. Raises
    ProviderPermanentFailure unless only this account can read the file.
    """
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as configparser documents
    try:
        parser.read_string(read_secret_file(path))
        return dict(parser["default"])
    except (configparser.Error, KeyError) as error:
        right = "a line [default], and lines NAME = VALUE below it"
        raise ProviderPermanentFailure(f"{path}: not as it has to be: {right}") from error


def read_secret_file(path: str) -> str:
    """Return the text of a private file; ProviderPermanentFailure if other accounts can read it."""
    try:
        raw, facts = safe_files.read_file_only_owner_writes(path, MOST_SECRET_BYTES, os.geteuid())
        if facts.st_mode & OTHERS:
            raise ProviderPermanentFailure(f"{path}: others can read it; chmod 600 {path}")
        return raw.decode().rstrip("\n")
    except FileNotFoundError as error:
        raise ProviderPermanentFailure(f"{path}: {error.strerror}") from error
    except StateError as error:
        raise ProviderPermanentFailure(str(error)) from error
    except UnicodeDecodeError as error:
        raise ProviderPermanentFailure(f"{path}: no UTF-8") from error
