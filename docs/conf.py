"""Sphinx: the pages and the man pages from the same source (make docs)."""

import re
import sys
from pathlib import Path

from click import Context, Option
from sphinx.application import Sphinx

from gridbridge import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for manual, which is beside this file

project = "gridbridge"
author = "the gridbridge authors"
copyright = "the gridbridge authors"
release = __version__
extensions = ["myst_parser", "sphinx_click", "manual"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Clusters share work",
    "fixed_sidebar": True,
    "page_width": "72em",
    "font_size": "16px",
}
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
man_show_urls = False
smartquotes = False  # what is quoted here is typed so


def _literal_example(_app: object, _context: object, lines: list[str]) -> None:
    """Have the example of a command's help shown as it is typed."""
    if "| Example:" not in lines:
        return
    at = lines.index("| Example:")
    typed = ["    " + line.removeprefix("|   ") for line in lines[at + 1 :] if line.strip()]
    lines[at:] = ["", "Example::", "", *typed, ""]


INSTEAD = {"griddel": ("Optional argument(s)", "Required, but with -c and with -j")}


def _true_of_arguments(_app: object, context: Context, lines: list[str]) -> None:
    """Say of an argument in whose place an option may stand that one of both is required."""
    said, right = INSTEAD.get(str(context.info_name), ("", ""))
    lines[:] = [line.replace(said, right) if said else line for line in lines]


def _whole_words(_app: object, context: Context, lines: list[str]) -> None:
    """Give the words of an option the brackets back that sphinx-click takes off their ends."""
    for one in context.command.params:
        word = (isinstance(one, Option) and one.metavar) or ""
        bare = word.lstrip("<[{($").rstrip(">]})$")
        if bare != word:
            said, whole = f"<{bare}>", word if word == f"[{bare}]" else f"<{word}>"
            at = lines.index(f".. option:: {', '.join(one.opts)} {said}")
            lines[at] = lines[at].replace(said, whole)


def setup(app: Sphinx) -> None:
    """Have sphinx-click call us."""
    app.connect("sphinx-click-process-options", _whole_words)
    app.connect("sphinx-click-process-arguments", _true_of_arguments)
    app.connect("sphinx-click-process-description", _literal_example)


def _page(path: Path) -> tuple[str, str, str, str, int]:
    """Return a man page's entry; its source NAME.SECTION.md begins `# NAME: what it does`."""
    name, _, section = path.stem.rpartition(".")
    title = re.match(r"# \S+: (.+)\n", path.read_text(encoding="utf-8"))
    assert title, f"{path}: the first line is `# NAME: what it does`"
    return (f"reference/commands/{path.stem}", name, title[1], author, int(section))


man_pages = [_page(path) for path in sorted((HERE / "reference/commands").glob("*.md"))]
man_pages += [
    ("reference/configuration", "gridbridge.toml", "the configuration of gridbridge", author, 5),
]
