"""The live screen of `gridbridge top`: reads the published files in a thread, and shows a table below a header."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from gridbridge.cli.output_and_errors import STYLES
from gridbridge.decisions.site.site_picture_rows import (
    COLUMNS,
    choose_and_sort_rows,
    column_widths,
    find_row_with_text,
    rows_of_table,
)
from gridbridge.model.site.site_picture import LastGoodPicture, PictureChoice, PictureRow, PictureTable
from gridbridge.site.cli.site_picture_reader import explain_picture_row, read_picture_or_keep_last
from gridbridge.site.cli.top_dialogs import ListDialog, TextDialog, help_text
from gridbridge.site.cli.top_header import header_text

EVERYTHING = "(all)"
MOST_ROWS = 2000  # to fill a table with 10,000 rows takes a second
SCROLLBAR = 1
LEAST_TABLE = 6  # lines that the header leaves for the table
SEARCH, FILTER = "search: ", "filter: "


def utc_now() -> datetime:
    return datetime.now(UTC)


class PictureRead(Message):
    def __init__(self, last: LastGoodPicture) -> None:
        super().__init__()
        self.last = last


class TopScreen(App[None]):
    """Shows the newest picture of the site; `clock` and `folder` are given by tests."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "gridbridge top"
    CSS = """
    #header { height: auto; }
    #tables { height: 1; }
    DataTable { height: 1fr; scrollbar-size: 0 1; }
    DataTable > .datatable--header { text-style: bold; }
    #prompt { height: 1; border: none; padding: 0 1; display: none; }
    #prompt.open { display: block; }
    ModalScreen { align: center middle; }
    .dialog { width: 40; max-width: 100%; height: auto; max-height: 90%; border: round $primary; padding: 0 1; }
    .dialog.wide { width: 90; }
    .dialog OptionList { height: auto; max-height: 20; border: none; }
    .dialog VerticalScroll { height: auto; max-height: 100%; }
    .dialog-title { text-style: bold; }
    .dialog-end { color: $text-muted; }
    """
    BINDINGS: ClassVar = [
        Binding("f1,h,question_mark", "help", "Help", key_display="F1"),
        Binding("f3,slash", "prompt('search: ')", "Search", key_display="F3"),
        Binding("n", "find_next", show=False),
        Binding("f4,backslash", "prompt('filter: ')", "Filter", key_display="F4"),
        Binding("f5,t", "tree", "Tree", key_display="F5"),
        Binding("f6,greater_than_sign,less_than_sign,full_stop,comma", "sort", "Sort", key_display="F6"),
        Binding("I", "invert", "Invert", key_display="I"),
        Binding("u", "choose_user", "User", key_display="u"),
        Binding("c", "choose_cluster", "Cluster", key_display="c"),
        Binding("C", "choose_campaign", "Campaign", key_display="C"),
        Binding("Z", "freeze", show=False),
        Binding("escape", "show_all", show=False),
        Binding("tab", "next_table(1)", "Table", key_display="Tab", priority=True),
        Binding("shift+tab", "next_table(-1)", show=False, priority=True),
        Binding("q,f10", "quit", "Quit", key_display="F10"),
        *(Binding(str(n), f"open_table({n})", show=False) for n in (1, 2, 3)),
    ]

    def __init__(
        self,
        choice: PictureChoice,
        delay_s: float,
        folder: str,
        path: str,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__()
        self.choice, self.last = choice, LastGoodPicture()
        self.picture_table = PictureTable.JOBS if choice.campaign is None else PictureTable.CAMPAIGNS
        self.rows: tuple[PictureRow, ...] = ()
        self._delay_s, self._folder, self._path, self._clock = delay_s, folder, path, clock
        self._end, self._is_frozen = Event(), False
        self._prompt_kind, self._found = "", ""
        self._columns: list[tuple[Text, int]] = []
        # a dialog hides the widgets from queries, so they are stored here
        self.header, self.table = Static(id="header"), DataTable[Text](cursor_type="row", zebra_stripes=True)
        self._tables = Static(id="tables")
        self._prompt = Input(id="prompt", compact=True)

    def compose(self) -> ComposeResult:
        yield self.header
        yield self._tables
        yield self.table
        yield self._prompt
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.table.focus()
        self.set_interval(1.0, self.show_header)
        self.call_after_refresh(Thread(target=self._read_until_closed, daemon=True).start)

    def on_unmount(self) -> None:
        self._end.set()

    def _read_until_closed(self) -> None:
        """Read pictures in a thread of its own, because a silent file server must not stop the screen."""
        last = self.last
        while not self._end.is_set():
            if not self._is_frozen:
                last = read_picture_or_keep_last(last, self._clock(), self._folder, self._path)
                self.post_message(PictureRead(last))
            self._end.wait(self._delay_s)

    def on_picture_read(self, message: PictureRead) -> None:
        self.last = message.last
        self.show_everything()

    def on_resize(self, _: Resize) -> None:
        self.call_after_refresh(self.show_everything)

    def show_everything(self) -> None:
        self.show_header()
        self.show_table()

    def show_header(self) -> None:
        most = max(1, self.size.height - LEAST_TABLE)
        text = header_text(self.last, self._choice_words(), self._clock(), self.size.width, most)
        self.header.update(text)

    def show_table(self) -> None:
        """Show the chosen rows; the cursor stays at its row."""
        if not self.last.picture:
            return
        before, selected = self.rows, self.selected_row
        every = rows_of_table(self.picture_table, self.last.picture, self._clock())
        self.rows = choose_and_sort_rows(self.picture_table, every, self.choice)[:MOST_ROWS]
        self._show_table_names(len(every))
        widths = column_widths(COLUMNS[self.picture_table], self.rows, self.size.width - SCROLLBAR)
        columns = [(self._column_title(n), width) for n, width in widths.items()]
        is_same = columns == self._columns and [row.key for row in before] == [row.key for row in self.rows]
        if is_same:
            self._update_changed_cells(before, tuple(widths))
        else:
            self._columns = columns
            self._fill_table(tuple(widths), selected)

    def _update_changed_cells(self, before: Sequence[PictureRow], columns: Sequence[int]) -> None:
        for place, (old, new) in enumerate(zip(before, self.rows, strict=True)):
            for position, n in enumerate(columns):
                if (old.cells[n], old.mood) != (new.cells[n], new.mood):
                    self.table.update_cell_at(Coordinate(place, position), self._cell(new, n))

    def _fill_table(self, columns: Sequence[int], selected: PictureRow | None) -> None:
        top = self.table.scroll_offset
        self.table.clear(columns=True)
        for title, width in self._columns:
            self.table.add_column(title, width=width)
        for row in self.rows:
            self.table.add_row(*(self._cell(row, n) for n in columns))
        places = (place for place, row in enumerate(self.rows) if selected and row.key == selected.key)
        self.table.move_cursor(row=next(places, 0), scroll=False)
        self.table.scroll_to(top.x, top.y, animate=False)

    @property
    def selected_row(self) -> PictureRow | None:
        place = self.table.cursor_row
        return self.rows[place] if 0 <= place < len(self.rows) else None

    def _column_title(self, n: int) -> Text:
        column = COLUMNS[self.picture_table][n]
        is_sorted = column.title == self._sort_title()
        arrow = ("▼" if self.choice.is_reversed else "▲") if is_sorted else ""
        return Text(column.title + arrow, justify="right" if column.is_number else "left")

    def _cell(self, row: PictureRow, n: int) -> Text:
        column = COLUMNS[self.picture_table][n]
        style = STYLES.get(row.mood, "") if column.title in ("THERE", "STATE", "PROGRESS", "ANSWERS", "REASON") else ""
        return Text(row.cells[n], style=style, justify="right" if column.is_number else "left", no_wrap=True)

    def _show_table_names(self, row_count: int) -> None:
        """Show the names of the tables, which can be clicked; the shown table has the number of its rows."""
        whole = sum(row.campaign is None or not row.key.partition("@")[2] for row in self.rows)
        count = f"{whole} of {row_count}" if whole < row_count else str(row_count)
        words = [
            f"[reverse bold] {table.capitalize()} {count} [/]"
            if table is self.picture_table
            else f"[@click=app.open_table({number})] {table.capitalize()} [/]"
            for number, table in enumerate(PictureTable, start=1)
        ]
        self._tables.update(" ".join(words))

    def _sort_title(self) -> str:
        return self.choice.sort_titles.get(self.picture_table, COLUMNS[self.picture_table][0].title)

    def _choice_words(self) -> str:
        campaign = self.choice.campaign
        words = (
            *(
                f"{name} {value}"
                for name, value in (("user", self.choice.user), ("cluster", self.choice.cluster))
                if value
            ),
            *([f"campaign {campaign}"] if campaign is not None else []),
            *([f"rows with {self.choice.text!r}"] if self.choice.text else []),
            *(["the frozen picture (Z goes on)"] if self._is_frozen else []),
        )
        return ", ".join(words)

    def _choose(self, **values: object) -> None:
        self.choice = replace(self.choice, **values)  # type: ignore[arg-type]  # fields of PictureChoice
        self.show_everything()

    def action_help(self) -> None:
        self.push_screen(TextDialog("Keys of gridbridge top", help_text()))

    def action_tree(self) -> None:
        self._choose(has_parts=not self.choice.has_parts)

    def action_invert(self) -> None:
        self._choose(is_reversed=not self.choice.is_reversed)

    def action_freeze(self) -> None:
        self._is_frozen = not self._is_frozen
        self.show_header()

    def action_show_all(self) -> None:
        if self._prompt_kind != SEARCH:
            self._choose(user="", cluster="", campaign=None, text="")
        self._close_prompt()

    def action_next_table(self, step: int) -> None:
        if not isinstance(self.screen, ListDialog | TextDialog):
            tables = list(PictureTable)
            self.action_open_table((tables.index(self.picture_table) + step) % len(tables) + 1)

    def action_open_table(self, number: int) -> None:
        self.picture_table = list(PictureTable)[number - 1]
        self.show_everything()

    def action_sort(self) -> None:
        titles = [column.title for column in COLUMNS[self.picture_table]]
        self._ask("Sort by", titles, self._sort_title(), self._sort_by)

    def _sort_by(self, title: str) -> None:
        self._choose(sort_titles={**self.choice.sort_titles, self.picture_table: title})

    def action_choose_user(self) -> None:
        picture = self.last.picture
        owners = {report.transfer.owner for report in picture.status.transfers} if picture else set()
        owners |= {campaign.owner for campaign in picture.campaigns} if picture else set()
        self._ask("User", [EVERYTHING, *sorted(owners)], self.choice.user, lambda name: self._choose(user=name))

    def action_choose_cluster(self) -> None:
        names = [cluster.name for cluster in self.last.picture.clusters] if self.last.picture else []
        self._ask("Cluster", [EVERYTHING, *names], self.choice.cluster, lambda name: self._choose(cluster=name))

    def action_choose_campaign(self) -> None:
        campaigns = self.last.picture.campaigns if self.last.picture else ()
        words = [EVERYTHING, *(f"{campaign.number} {campaign.name}" for campaign in campaigns)]
        self._ask("Campaign", words, "", self._choose_campaign)

    def _choose_campaign(self, word: str) -> None:
        self._choose(campaign=int(word.partition(" ")[0]) if word else None)
        if word:
            self.action_open_table(2)

    def _ask(self, title: str, words: list[str], chosen: str, act: Callable[[str], None]) -> None:
        def answer(word: str | None) -> None:
            if word is not None:
                act("" if word == EVERYTHING else word)

        self.push_screen(ListDialog(title, words, chosen), answer)

    def action_prompt(self, kind: str) -> None:
        if self._prompt_kind == kind == SEARCH:
            self.action_find_next()
            return
        self._prompt_kind = kind
        self._prompt.placeholder = kind
        self._prompt.value = self.choice.text if kind == FILTER else ""
        self._prompt.add_class("open")
        self._prompt.focus()

    def _close_prompt(self) -> None:
        self._prompt_kind = ""
        self._prompt.remove_class("open")
        self.table.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._prompt_kind == FILTER:
            self._choose(text=event.value)
        elif self._prompt_kind == SEARCH:
            self._found = event.value
            self._find_from(self.table.cursor_row)

    def on_input_submitted(self) -> None:
        self._close_prompt()

    def action_find_next(self) -> None:
        self._find_from(self.table.cursor_row + 1)

    def _find_from(self, start: int) -> None:
        place = find_row_with_text(self.rows, self._found, start) if self._found else None
        if place is not None:
            self.table.move_cursor(row=place)

    def on_data_table_row_selected(self) -> None:
        row, picture = self.selected_row, self.last.picture
        if row and picture:
            lines = explain_picture_row(self.picture_table, row, picture, self._clock(), self._folder, self._path)
            self.push_screen(TextDialog(f"{self.picture_table.value[:-1]} {row.cells[0]}", Text("\n".join(lines))))
