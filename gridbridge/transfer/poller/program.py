"""gridbridge-poller: query the clusters for all transferred jobs, in one process.

systemd starts the poller; the load sensor starts a missing poller. A lock lets only one poller run. The
poller takes no arguments: gridbridge.toml configures the poller. Exit status: 0 stopped by a
signal, 1 another poller runs, 2 wrong set-up.

Example: setpriv --reuid gridbridge --regid gridbridge --init-groups gridbridge-poller
"""

import sys

from gridbridge.errors import GridbridgeError
from gridbridge.shell import program_startup
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.shell.service_signals_and_heartbeat import StopAndReloadSignals


def main() -> None:
    """Run the poller until SIGTERM; exit with 0, 1 if another poller runs, or 2 if the set-up is wrong."""
    program_startup.print_help_or_version_if_asked(__doc__, version_with_commit)
    if words := sys.argv[1:]:
        print(f"gridbridge-poller: {words[0]!r}: unexpected argument; expected none", file=sys.stderr)  # noqa: T201 - as below
        sys.exit(2)
    signals = StopAndReloadSignals()  # before the slow imports, because an unhandled SIGHUP would end the process
    from gridbridge.transfer.poller import poller_daemon

    try:
        poller_daemon.run_poller(signals)
    except GridbridgeError as error:
        print(f"gridbridge-poller: {error}", file=sys.stderr)  # noqa: T201 - the log may not exist
        sys.exit(2)
