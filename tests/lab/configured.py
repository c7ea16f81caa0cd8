"""The lab's service with another gridbridge.toml, for a while."""

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
    """Run the service with its configuration changed by a script of sed(1); one within another."""
    kept = grid.sh(HOST, f"file=$(mktemp {TOML}.XXXXXX) && cp -p {TOML} $file && echo $file").strip()
    try:
        edit(grid, sed)
        reload(grid)
        yield
    finally:
        grid.sh(HOST, f"mv {kept} {TOML}")
        reload(grid)


def edit(grid: Grid, sed: str) -> None:
    """Put a changed gridbridge.toml in the place of the one that is there, whole."""
    grid.sh(HOST, f"sed '{sed}' {TOML} >{TOML}.new && mv {TOML}.new {TOML}")


def reload(grid: Grid) -> None:
    """Have the service take its gridbridge.toml now; one that is just starting reads it anyway."""
    grid.on(HOST, "pkill", "-HUP", "-u", "gridbridge", "-f", POLLER)
    grid.until(lambda: is_in_force(grid), f"{TOML} to be in force", 30)
    grid.require_ready()


def is_in_force(grid: Grid) -> bool:
    """Say whether the service has the gridbridge.toml that is there."""
    return grid.on(HOST, "sh", "-c", IN_FORCE).status == 0


def restart(grid: Grid) -> None:
    """End the poller; its sensor starts another, which publishes the routes anew."""
    before = _published(grid)
    kill(grid, *pollers(grid), signal="TERM")
    grid.until(lambda: _published(grid) != before, "another poller", 30)
    grid.require_ready()


def pollers(grid: Grid) -> list[str]:
    """Return the pids of the service, one as a rule."""
    return grid.on(HOST, "pgrep", "-f", POLLER).out.split()


def _published(grid: Grid) -> str:
    """Tell apart what each start of the service has written."""
    return grid.sh(HOST, f"stat -c '%i %y' {SERVICE}")
