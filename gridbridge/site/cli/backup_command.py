"""gridbridge backup and restore: save what a site can't make again, and put it back."""

import os
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE
from gridbridge.config import configuration_file
from gridbridge.errors import GridbridgeError
from gridbridge.model.site_configuration import Policy
from gridbridge.site import site_backup
from gridbridge.state import sqlite_copies


@click.command()
@click.argument("file")
@CONFIG_FILE
def backup(file: str, path: str) -> None:
    """Save state files, root's ledger, campaign files and claims in FILE, while the service runs.

    FILE is a gzipped tar that only root can read, because it has everybody's campaigns and commands. The state files of
    service and balancer are copied by SQLite; back a PostgreSQL database up with pg_dump at the same time. A failed
    backup leaves an existing FILE as it was. For root. Exit status: 0 done; 2 an error.

    \b
    Example:
      gridbridge backup /var/backups/gridbridge.tar.gz
    """
    policy = _policy_for_root(path)
    places = site_backup.saved_places(policy)
    for line in site_backup.pack_backup(os.path.abspath(file), places, policy.site.cluster, datetime.now(UTC)):
        output_and_errors.print_line(line)


def _policy_for_root(path: str) -> Policy:
    policy = configuration_file.load_configuration(path)
    if os.geteuid() != 0 and not policy.is_single_user_site:
        raise GridbridgeError("run this as root, who alone can read all files of a backup")
    return policy


@click.command()
@click.argument("file")
@click.option("--stop", "is_stopping", is_flag=True, help="Stop the programs that use the state files.")
@click.option("--lost-ledger", "is_ledger_lost", is_flag=True, help="Put root's ledger back, although it is old.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Check FILE, print what would be done, and do nothing.")
@CONFIG_FILE
def restore(file: str, is_stopping: bool, is_ledger_lost: bool, is_dry_run: bool, path: str) -> None:
    """Put the state files of a backup in place, and missing campaign files and claims.

    The former state file becomes state.db.before-restore. Root's present ledger stays: by the ledger the service knows
    each task that was sent after the backup, and sends no task twice. Campaigns of which the ledger knows more than
    the state file pause, until their owners resume them (`griddel -r`). A lost ledger is put back with --lost-ledger
    only: tasks that were sent after the backup may then run twice.

    The command refuses while a program of the service or the balancer runs, unless --stop stops it. A load sensor
    starts the poller again; start the other programs yourself. A killed restore has replaced a state file or has not:
    repeat it. For root. Exit status: 0 done; 2 an error, nothing was replaced.

    \b
    Example:
      gridbridge restore --dry-run /var/backups/gridbridge.tar.gz
      gridbridge restore --stop /var/backups/gridbridge.tar.gz
    """
    policy = _policy_for_root(path)
    places, saved = site_backup.saved_places(policy), site_backup.OpenBackup(file)
    _require_restorable(saved, places, policy, is_stopping or is_dry_run, is_ledger_lost)
    files = [each for each in places.state_files if saved.give_to_owner(each, sqlite_copies.CHECKING) is not None]
    folders = {name: folder for name, folder in places.folders.items() if name != site_backup.LEDGER or is_ledger_lost}
    if is_dry_run:
        for line in (
            *(f"would replace {each.path} by the file of {saved.at}" for each in files),
            *(
                f"would add {len(saved.missing_files(name, folder))} files to {folder}"
                for name, folder in folders.items()
            ),
        ):
            output_and_errors.print_line(line)
        return
    for name, folder in folders.items():
        output_and_errors.print_line(f"added {saved.put_missing_files(name, folder)} files to {folder}")
    verb = sqlite_copies.STOPPING if is_stopping else sqlite_copies.REPLACING
    for each in files:
        stopped = saved.give_to_owner(each, verb)
        output_and_errors.print_line(f"replaced {each.path} by the file of {saved.at}")
        for program in stopped or ():
            output_and_errors.print_line(f"stopped {program}: start it again, unless it starts by itself")


def _require_restorable(
    saved: site_backup.OpenBackup, places: site_backup.SavedPlaces, policy: Policy, may_run: bool, is_ledger_lost: bool
) -> None:
    if saved.site != policy.site.cluster:
        raise GridbridgeError(f"this is a backup of site {saved.site}; expected one of {policy.site.cluster}")
    running = site_backup.running_programs(places)
    if running and not may_run:
        named = ", ".join(f"{program} (process {pid or 'unknown'})" for program, pid in running.items())
        raise GridbridgeError(f"running: {named}; expected no program; --stop stops them")
    ledger = places.folders[site_backup.LEDGER]
    if saved.has_lost_ledger(ledger) and not is_ledger_lost:
        why = "tasks that were sent after the backup may run twice"
        raise GridbridgeError(f"{ledger}: root's ledger is lost; --lost-ledger puts the backup's ledger back: {why}")
