"""--help of the programs that are started for others: their costs count, so click has no part."""

import os
import sys


def show_if_asked(text: str) -> None:
    """Print how a program is called and end it with 0, if that is all that its caller wants."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        os.write(1, text.encode())
        sys.exit(0)
