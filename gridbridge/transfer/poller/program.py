"""gridbridge-poller: the one process that asks the clusters, however many jobs were sent.

Started by systemd, or by the load sensor when none runs; a lock keeps it the only one. It takes no
arguments: what it does is in gridbridge.toml. Exit status: 0 it was told to stop, 1 another one
runs, 2 a wrong set-up.

Example: setpriv --reuid gridbridge --regid gridbridge --init-groups gridbridge-poller
"""

import sys

from gridbridge.errors import GridbridgeError
from gridbridge.program.version import version
from gridbridge.shell import synopsis
from gridbridge.shell.signals import ProcessSignals


def main() -> None:
    """Run until SIGTERM; exit status 0, 1 when another poller runs, 2 for a wrong set-up."""
    synopsis.show_if_asked(__doc__, version)
    if words := sys.argv[1:]:
        print(f"gridbridge-poller: {words[0]!r}: it takes no arguments", file=sys.stderr)  # noqa: T201 - as below
        sys.exit(2)
    signals = ProcessSignals()  # first of all, for SIGHUP ends a process that does not know it
    from gridbridge.transfer.poller import daemon  # half a second

    try:
        daemon.run(signals)
    except GridbridgeError as error:
        print(f"gridbridge-poller: {error}", file=sys.stderr)  # noqa: T201 - the log may not exist
        sys.exit(2)
