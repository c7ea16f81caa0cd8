"""Copies the output of a program, and saves it as a picture of a terminal (make picture).

usage: PROGRAM | picture.py FILE.svg COMMAND
"""

import sys

from rich.console import Console
from rich.terminal_theme import MONOKAI

WIDTH = 96


def main() -> None:
    """Print standard input below the command that made it, and write the picture."""
    path, command = sys.argv[1:]
    console = Console(record=True, width=WIDTH, force_terminal=True)
    console.print(f"$ {command}", style="bold", highlight=False)
    for line in sys.stdin:
        console.print(line.rstrip("\n"), markup=False, highlight=False)
    console.save_svg(path, title="gridbridge", theme=MONOKAI)


if __name__ == "__main__":
    main()
