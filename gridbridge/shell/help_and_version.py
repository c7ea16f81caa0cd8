"""Prints --help and --version of programs for which loading click would cost too much."""

import os
import sys

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable


def print_help_or_version_if_asked(text: str, version: "Callable[[], str] | None" = None) -> None:
    """Print the usage or the version and exit with 0 if the arguments request it.

    `text` begins with the program's name. Hot programs don't know their version.
    """
    if sys.argv[1:] in (["--help"], ["-h"]):
        answer = text
    elif version and sys.argv[1:] == ["--version"]:
        answer = f"{text.split(maxsplit=1)[0].rstrip(':')} {version()}\n"
    else:
        return
    os.write(1, answer.encode())
    sys.exit(0)
