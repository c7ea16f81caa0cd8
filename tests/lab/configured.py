"""The lab's service with a temporarily changed gridbridge.toml."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.away import kill
from tests.lab.grid import Grid

HOST = "alpha-master"
TOML = "/etc/gridbridge/gridbridge.toml"
SERVICE = "/var/lib/gridbridge/published/service.json"
POLLER = "[g]ridbridge.transfer.poller.program"
IN_FORCE = f"""grep -q "\\"sha256\\": \\"$(sha256sum <{TOML} | cut -d' ' -f1)\\"" {SERVICE}"""


@contextmanager
def configured(grid: Grid, sed: str) -> Iterator[None]:
    kept = grid.sh(HOST, f"file=$(mktemp {TOML}.XXXXXX) && cp -p {TOML} $file && echo $file").strip()
    try:
        edit(grid, sed)
        reload(grid)
        yield
    finally:
        grid.sh(HOST, f"mv {kept} {TOML}")
        reload(grid)


def edit(grid: Grid, sed: str) -> None:
    """Change gridbridge.toml by a sed script; the new file replaces the old one in one step."""
    grid.sh(HOST, f"sed '{sed}' {TOML} >{TOML}.new && mv {TOML}.new {TOML}")


def reload(grid: Grid) -> None:
    """Have the service read its gridbridge.toml now. A service that is just starting reads it anyway."""
    grid.on(HOST, "pkill", "-HUP", "-u", "gridbridge", "-f", POLLER)
    grid.until(lambda: is_in_force(grid), f"{TOML} to be in force", 30)
    grid.require_ready()


def is_in_force(grid: Grid) -> bool:
    return grid.on(HOST, "sh", "-c", IN_FORCE).status == 0


def restart(grid: Grid) -> None:
    """End the poller; its sensor starts another one, which publishes the queue routes again."""
    before = _published(grid)
    kill(grid, *pollers(grid), signal="TERM")
    grid.until(lambda: _published(grid) != before, "another poller", 30)
    grid.require_ready()


def pollers(grid: Grid) -> list[str]:
    return grid.on(HOST, "pgrep", "-f", POLLER).out.split()


def _published(grid: Grid) -> str:
    return grid.sh(HOST, f"stat -c '%i %y' {SERVICE}")
