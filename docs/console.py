"""Tells prompts, commands and output of console blocks apart, for colours and copy buttons."""

import re
from collections.abc import Iterator

from pygments.lexer import Lexer
from pygments.lexers.shell import BashLexer
from pygments.token import Generic, Text, _TokenType
from sphinx.application import Sphinx

PROMPTS = ("$ ", "# ")
HERE_DOCUMENT = re.compile(r"<<'(\S+)'$")


class ConsoleLexer(Lexer):
    """Read a block as tests/docs/console.py does: a here-document belongs to its command."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """Yield position, type and text of each token."""
        position, delimiter = 0, ""
        for line in text.splitlines(keepends=True):
            if delimiter:
                yield position, Text, line
                delimiter = "" if line.rstrip("\n") == delimiter else delimiter
            elif line.startswith(PROMPTS):
                yield position, Generic.Prompt, line[:2]
                for offset, kind, word in BashLexer().get_tokens_unprocessed(line[2:]):
                    yield position + 2 + offset, kind, word
                begun = HERE_DOCUMENT.search(line.rstrip("\n"))
                delimiter = begun[1] if begun else ""
            else:
                yield position, Generic.Output, line
            position += len(line)


def setup(app: Sphinx) -> None:
    """Have Sphinx use the lexer for console blocks."""
    for language in ("console", "shell-session"):
        app.add_lexer(language, ConsoleLexer)
