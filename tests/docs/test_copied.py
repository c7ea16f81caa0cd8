"""The copy button of a console block copies commands without prompts and output."""

import runpy

import pytest
from pygments.token import Generic

from tests.docs.console import BLOCK, PAGES, ROOT, console

LEXER = runpy.run_path(str(ROOT / "docs/console.py"))["ConsoleLexer"]
BLOCKS = [block for page in PAGES for block in BLOCK.findall(page.read_text())]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_copy_button_copies_only_the_commands_of_a_block(block: str) -> None:
    tokens = LEXER().get_tokens(block)
    copied = "".join(word for kind, word in tokens if kind not in (Generic.Prompt, Generic.Output))

    typed = [each.command for each in console(f"```console\n{block}```\n")]
    assert "\n".join(typed) == copied.strip()
