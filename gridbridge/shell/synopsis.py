"""--help and --version of programs that are started for others: click would cost too much."""

import os
import sys

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Callable


def show_if_asked(text: str, version: "Callable[[], str] | None" = None) -> None:
    """Print how a program is called, or its version, and end it with 0, if its caller asks that.

    `text` begins with the program's name. A hot program does not know its version.
    """
    if sys.argv[1:] in (["--help"], ["-h"]):
        answer = text
    elif version and sys.argv[1:] == ["--version"]:
        answer = f"{text.split(maxsplit=1)[0].rstrip(':')} {version()}\n"
    else:
        return
    os.write(1, answer.encode())
    sys.exit(0)
