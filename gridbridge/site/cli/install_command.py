"""gridbridge install: copies gridbridge's own environment to /opt/gridbridge."""

from datetime import UTC, datetime
from pathlib import Path

import click

from gridbridge.cli import output_and_errors
from gridbridge.errors import GridbridgeError
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.site import prefix_installation, program_restart


@click.command()
@click.option(
    "--prefix",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    default=prefix_installation.PREFIX,
    show_default=True,
    help="Write into this folder, which the hosts will find at /opt/gridbridge.",
)
@click.option("--restart", "is_restarting", is_flag=True, help="Restart the running programs of this host afterwards.")
def install(prefix: Path, is_restarting: bool) -> None:
    """Install this gridbridge into /opt/gridbridge, or upgrade the gridbridge there.

    Programs, methods of Grid Engine, hooks of OAR, sample configuration, man pages and completion are copied from the
    Python environment of this command; nothing is downloaded. A single rename switches from the old environment to the
    new one, so running jobs and services continue, and an interrupted command has changed nothing. Libraries that you
    added to the old environment stay. The Debian package runs this command itself. For root. With --restart systemd
    restarts its units, and each other running program of gridbridge ends: the load sensor or cron starts it again.

    Exit status: 0 done; 2 an error.

    \b
    Example:
      gridbridge install --restart
      gridbridge install --prefix /srv/image/opt/gridbridge
    """
    try:
        environment = prefix_installation.install_into_prefix(prefix.absolute(), datetime.now(UTC))
    except OSError as error:
        raise GridbridgeError(
            f"--prefix {prefix}: {error.filename or prefix}: {error.strerror}; expected a folder that this user may"
            " write: run this command as root"
        ) from error
    output_and_errors.print_line(f"gridbridge {version_with_commit()} is installed: {environment}")
    for program in program_restart.restart_running_programs() if is_restarting else ():
        output_and_errors.print_line(f"stopped {program}: start it again, unless it starts by itself")
