"""Dialogs of `gridbridge top`: a list to choose from, and a text to read."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option

from gridbridge.site.cli.top_header import PARTS

HELP = """\
Tab, Shift-Tab    next, previous table (also 1, 2, 3)
Arrows, PgUp ...  move in the table
Enter             explain the selected row
F1  h  ?          this help
F3  /             search; F3 or n finds the next row
F4  \\             show only rows with a text; empty shows all
F5  t             show each campaign's clusters below it
F6  >  .          choose the sort column
I                 invert the order
u                 show rows of one user
c                 show rows of one cluster
C                 show one campaign
Esc               show all rows again
Z                 freeze the picture, and go on
F10  q            quit
"""


def help_text() -> Text:
    words = ("others' slots", "slots of gridbridge's jobs", "free", "accept no job")
    bars = (
        Text.assemble((f"{mark * 3} ", colour), f"{word}\n") for (mark, colour), word in zip(PARTS, words, strict=True)
    )
    return Text.assemble(HELP, "\n", *bars)


class ListDialog(ModalScreen[str | None]):
    """Lets the user choose a word; the result is None if the user chose nothing."""

    BINDINGS: ClassVar = [Binding("escape,q,f10", "dismiss(None)", "Back")]

    def __init__(self, title: str, words: Sequence[str], chosen: str) -> None:
        super().__init__()
        self._title, self._words, self._chosen = title, tuple(words), chosen

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(self._title, classes="dialog-title")
            yield OptionList(*(Option(Text(word)) for word in self._words))

    def on_mount(self) -> None:
        places = self.query_one(OptionList)
        places.highlighted = self._words.index(self._chosen) if self._chosen in self._words else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._words[event.option_index])


class TextDialog(ModalScreen[None]):
    """Shows a text that can be scrolled."""

    BINDINGS: ClassVar = [Binding("escape,q,f10,enter,f1,h,question_mark", "dismiss(None)", "Back")]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Label(Text(self._title), classes="dialog-title")
            with VerticalScroll():
                yield Static(self._text)
            yield Label("Esc: back", classes="dialog-end")
