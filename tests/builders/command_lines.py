"""Programs run with a command line, in the process of the test."""

from collections.abc import Callable
from unittest.mock import patch

import pytest


def exit_status(program: Callable[[], object], *argv: str) -> int:
    """Run a program with this command line, the program's name first; return its exit status."""
    with patch("sys.argv", [*argv]), pytest.raises(SystemExit) as ended:
        program()
    return int(ended.value.code or 0)
