"""Sphinx: the pages and the man pages from the same source (make docs)."""

import re
import sys
from pathlib import Path

from click import Context, Option
from sphinx.application import Sphinx

from gridbridge import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for console, keys and manual, which are beside this file

project = "gridbridge"
author = "the gridbridge authors"
copyright = "the gridbridge authors"
release = __version__
extensions = ["myst_parser", "sphinx_click", "sphinx_copybutton", "sphinx.ext.graphviz", "console", "keys", "manual"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
html_theme = "furo"
html_title = "gridbridge"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
highlight_language = "text"
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output
graphviz_output_format = "svg"
man_show_urls = False
smartquotes = False  # quotes in examples are typed as shown


def _format_example(_app: object, _context: object, lines: list[str]) -> None:
    """Make the example in a command's help a literal block."""
    if "| Example:" not in lines:
        return
    start = lines.index("| Example:")
    commands = ["    " + line.removeprefix("|   ") for line in lines[start + 1 :] if line.strip()]
    lines[start:] = ["", "Example::", "", *commands, ""]


ARGUMENTS = {"griddel": ("Optional argument(s)", "Required, but with -c and with -j")}


def _correct_arguments(_app: object, context: Context, lines: list[str]) -> None:
    """Replace "optional" for an argument that only an option can stand in for."""
    printed, correct = ARGUMENTS.get(str(context.info_name), ("", ""))
    lines[:] = [line.replace(printed, correct) if printed else line for line in lines]


def _restore_brackets(_app: object, context: Context, lines: list[str]) -> None:
    """Restore the brackets that sphinx-click strips from the ends of a metavar."""
    for option in context.command.params:
        metavar = (isinstance(option, Option) and option.metavar) or ""
        bare = metavar.lstrip("<[{($").rstrip(">]})$")
        if bare != metavar:
            printed, whole = f"<{bare}>", metavar if metavar == f"[{bare}]" else f"<{metavar}>"
            line = lines.index(f".. option:: {', '.join(option.opts)} {printed}")
            lines[line] = lines[line].replace(printed, whole)


def setup(app: Sphinx) -> None:
    """Connect the corrections of sphinx-click's output."""
    app.connect("sphinx-click-process-options", _restore_brackets)
    app.connect("sphinx-click-process-arguments", _correct_arguments)
    app.connect("sphinx-click-process-description", _format_example)


def _page(path: Path) -> tuple[str, str, str, str, int]:
    """Return a man page's entry; its source NAME.SECTION.md begins `# NAME: what it does`."""
    name, _, section = path.stem.rpartition(".")
    title = re.match(r"# \S+: (.+)\n", path.read_text(encoding="utf-8"))
    assert title, f"{path}: the first line is `# NAME: what it does`"
    return (f"reference/commands/{path.stem}", name, title[1], author, int(section))


man_pages = [_page(path) for path in sorted((HERE / "reference/commands").glob("*.md"))]
man_pages += [("reference/configuration", "gridbridge.toml", "the configuration of gridbridge", author, 5)]
