"""gridbridge top on a screen: widths, resizes, keys, lost files and a killed service."""

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import OptionList

from gridbridge.cli.main import gridbridge
from gridbridge.model.site.site_picture import PictureChoice, PictureTable
from gridbridge.site.cli.top_dialogs import TextDialog
from gridbridge.site.cli.top_screen import TopScreen
from tests.campaigns.cli.published_builder import make_shown_campaign, publish_campaigns
from tests.shown import NOW, ago, cluster, history, publish, queue, shown, transfer

JOBS = (
    transfer(name="greeting"),
    transfer(transfer="gb.alpha.13.2.1", owner="bob", name="render", remote="gamma", remote_state="qw"),
)
WRITER = """
import sys, time
from gridbridge.state.published_file_formats import encode_load_values
from gridbridge.state.published_files import publish_file
while True:
    publish_file(f"{sys.argv[1]}/load", encode_load_values(time.time(), 0.5, {}))
    time.sleep(0.05)
"""
LIMIT_S = 20
AT_ONCE = 600  # the files are read once; a pilot waits after each key until the screen is idle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    silent = cluster("gamma", trouble="no route to host")
    clusters = {"alpha": cluster("alpha", queue(), slots=4, used=1), "beta": cluster("beta"), "gamma": silent}
    publish(tmp_path, shown(*JOBS, clusters=clusters), history(JOBS[0], "being submitted to beta"))
    publish_campaigns(tmp_path, make_shown_campaign(), make_shown_campaign(number=8, name="dock", owner="bob"))
    return tmp_path


def screen_text(app: TopScreen) -> str:
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


async def until(pilot: Pilot[None], holds: Callable[[], object]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < limit, screen_text(pilot.app)  # type: ignore[arg-type]  # it is a TopScreen
        await pilot.pause(0.02)


def watch(
    folder: Path,
    act: Callable[[TopScreen, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (100, 30),
    clock: Callable[[], datetime] = lambda: NOW,
    delay_s: float = 0.2,
) -> None:
    async def run() -> None:
        app = TopScreen(PictureChoice(), delay_s, str(folder), "/nonexistent", clock)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.last.picture or app.last.trouble)
            await act(app, pilot)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("size", "there", "missing"),
    [
        (
            (120, 30),
            (
                "greeting",
                "WAITS FOR",
                "gamma to answer; the job counts as alive",
                "gamma gets nothing: has not answered",
                "F10 Quit",
            ),
            (),
        ),
        ((66, 24), ("greeting", "SINCE", "Help"), ("HOST",)),
        ((40, 12), ("12", "beta", "published 1 s ago", "more lines: enlarge the window"), ("SINCE", "HOST")),
        ((12, 5), ("12",), ("NAME",)),
    ],
    ids=["wide", "usual", "narrow", "tiny"],
)
def test_each_size_shows_what_fits(
    folder: Path, size: tuple[int, int], there: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    async def look(app: TopScreen, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: all(word in screen_text(app) for word in there))

        assert [word for word in missing if word in screen_text(app)] == []
        assert all(len(line) <= size[0] for line in screen_text(app).splitlines())

    watch(folder, look, size, delay_s=AT_ONCE)


def test_a_resize_keeps_the_selected_row_and_changes_the_columns(folder: Path) -> None:
    async def resize(app: TopScreen, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        await pilot.resize_terminal(44, 20)
        await until(pilot, lambda: "HOST" not in screen_text(app))
        assert app.selected_row
        assert app.selected_row.cells[0] == "13.2"
        await pilot.resize_terminal(140, 30)
        await until(pilot, lambda: "HOST" in screen_text(app))
        assert app.selected_row.cells[0] == "13.2"

    watch(folder, resize, delay_s=AT_ONCE)


def test_new_values_and_new_rows_reach_the_screen_below_the_same_cursor(folder: Path) -> None:
    async def change(app: TopScreen, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        publish(folder, shown(JOBS[0], replace(JOBS[1], remote_state="r", remote_facts=())))
        await until(pilot, lambda: "qw" not in screen_text(app))
        publish(folder, shown(transfer(transfer="gb.alpha.2.0.1", name="first"), *JOBS))
        await until(pilot, lambda: "first" in screen_text(app) and "qw" in screen_text(app))
        assert app.selected_row
        assert app.selected_row.cells[0] == "13.2"

    watch(folder, change)


def test_the_keys_of_htop(folder: Path) -> None:
    async def press_keys(app: TopScreen, pilot: Pilot[None]) -> None:
        def jobs() -> list[str]:
            return [row.cells[0] for row in app.rows]

        await pilot.press("I")
        assert jobs() == ["13.2", "12"]
        await pilot.press("I", "u")
        assert [str(option.prompt) for option in app.screen.query_one(OptionList).options] == ["(all)", "alice", "bob"]
        await pilot.press("end", "enter")
        await until(pilot, lambda: jobs() == ["13.2"])
        assert "only user bob" in screen_text(app)
        await pilot.press("escape", "f4", *"greet")
        await until(pilot, lambda: jobs() == ["12"])
        await pilot.press("escape", "slash", *"render")
        await until(pilot, lambda: app.selected_row and app.selected_row.cells[0] == "13.2")
        await pilot.press("enter", "f6", "down", "enter")
        await until(pilot, lambda: app.choice.sort_titles == {PictureTable.JOBS: "NAME"})
        await pilot.press("tab")
        assert [row.cells[1] for row in app.rows] == ["sweep", "dock"]
        await pilot.press("t")
        assert [row.cells[1] for row in app.rows][:3] == ["sweep", "└ beta", "└ gamma"]
        await pilot.press("C", "end", "enter")
        await until(pilot, lambda: app.choice.campaign == 8)
        await pilot.press("escape", "3", "c", "down", "enter")
        await until(pilot, lambda: jobs() == ["alpha"])
        for key in ("f1", "h", "question_mark"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, TextDialog) and "sort column" in screen_text(app))
            await pilot.press("escape")
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)

    watch(folder, press_keys, delay_s=AT_ONCE)


def test_enter_explains_the_selected_row(folder: Path) -> None:
    async def explain(app: TopScreen, pilot: Pilot[None]) -> None:
        for table, words in (("1", "being submitted to beta"), ("2", "0 of 2 tasks ended"), ("3", "answered 4 s ago")):
            await pilot.press(table, "enter")
            await until(pilot, lambda words=words: words in screen_text(app))
            await pilot.press("escape")

    watch(folder, explain, delay_s=AT_ONCE)


def test_a_lost_folder_leaves_the_last_picture_with_its_age(folder: Path) -> None:
    times = [NOW]

    async def lose(app: TopScreen, pilot: Pilot[None]) -> None:
        folder.rename(away := folder.with_name("away"))
        times.append(ago(-60))
        await until(pilot, lambda: "no such folder" in app.last.trouble)
        await until(pilot, lambda: "last picture, published 61 s ago" in screen_text(app))
        assert [row.cells[1] for row in app.rows] == ["greeting", "render"]
        away.rename(folder)
        await until(pilot, lambda: "published 61 s ago" in screen_text(app) and not app.last.trouble)

    watch(folder, lose, (200, 30), lambda: times[-1])


@pytest.mark.parametrize(
    ("name", "data", "trouble"),
    [("load", None, "published files are gone"), ("transfers.json", b"{", "not what this version")],
)
def test_a_lost_or_broken_file_leaves_the_last_picture(
    folder: Path, name: str, data: bytes | None, trouble: str
) -> None:
    async def lose(app: TopScreen, pilot: Pilot[None]) -> None:
        (folder / name).write_bytes(data) if data else (folder / name).unlink()
        await until(pilot, lambda: trouble in screen_text(app))
        assert len(app.rows) == 2

    watch(folder, lose, (200, 30))


def test_a_screen_without_any_published_file_says_so_and_fills_later(tmp_path: Path) -> None:
    async def fill(app: TopScreen, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "no such folder" in " ".join(screen_text(app).split()))
        publish(tmp_path / "published", shown(*JOBS))
        await until(pilot, lambda: "greeting" in screen_text(app))

    watch(tmp_path / "published", fill)


def test_a_killed_writer_of_published_files_is_reported(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)]) as writer:

        async def kill(app: TopScreen, pilot: Pilot[None]) -> None:
            await until(pilot, lambda: "silent" not in screen_text(app))
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            await until(pilot, lambda: "gridbridge-poller is silent for" in screen_text(app))
            assert len(app.rows) == 2

        try:
            watch(folder, kill, clock=lambda: datetime.now(UTC))
        finally:
            writer.kill()


def test_top_needs_a_terminal() -> None:
    done = CliRunner().invoke(gridbridge, ["top"])

    assert done.exit_code == 2
    assert "no terminal; gridbridge status prints the tables once" in done.stderr


@contextmanager
def terminal_program(
    *words: str, columns: int
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[bytes], None], int]]:
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    code = "from gridbridge.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
    ) as program:
        os.close(other)

        def wait_for(words: bytes) -> None:
            printed, limit = b"", time.monotonic() + LIMIT_S
            while words not in printed:
                ready, _, _ = select.select([main], [], [], max(0, limit - time.monotonic()))
                assert ready, printed
                printed += os.read(main, 65536)

        yield program, wait_for, main
        program.kill()
    os.close(main)


def test_the_program_on_a_terminal_follows_a_resize_and_quits(folder: Path) -> None:
    with terminal_program("top", "--published", str(folder), columns=80) as (program, wait_for, terminal):
        wait_for(b"greeting")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
        os.kill(program.pid, signal.SIGWINCH)
        wait_for(b"WAITS FOR")
        os.write(terminal, b"q")
        wait_for(b"\x1b[?1049l")  # the terminal shows its former contents again
        assert program.wait(LIMIT_S) == 0
