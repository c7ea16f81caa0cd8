"""The lab's service with another gridbridge.toml, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.away import kill
from tests.lab.grid import Grid

TOML = "/etc/gridbridge/gridbridge.toml"
SERVICE = "/var/lib/gridbridge/published/service.json"
POLLER = "[g]ridbridge.services.poller"


@contextmanager
def configured(grid: Grid, sed: str) -> Iterator[None]:
    """Run the service with its configuration changed by a script of sed(1)."""
    grid.sh("alpha-master", f"cp {TOML} {TOML}.kept && sed -i '{sed}' {TOML}")
    try:
        _restart(grid)
        yield
    finally:
        grid.sh("alpha-master", f"mv {TOML}.kept {TOML}")
        _restart(grid)


def _restart(grid: Grid) -> None:
    """End the poller; its sensor starts another, which publishes the routes anew."""
    before = _published(grid)
    kill(grid, *grid.on("alpha-master", "pgrep", "-f", POLLER).out.split(), signal="TERM")
    grid.until(lambda: _published(grid) != before, "another poller", 30)
    grid.require_ready()


def _published(grid: Grid) -> str:
    """Tell apart what each start of the service has written."""
    return grid.sh("alpha-master", f"stat -c '%i %y' {SERVICE}")
