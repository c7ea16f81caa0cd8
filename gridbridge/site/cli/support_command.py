"""gridbridge support: packs a report for whoever helps the site."""

import os
from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, refuse_empty_option_value
from gridbridge.errors import GridbridgeError, error_on_one_line
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.site import support_report
from gridbridge.site.cli import check_command


@click.command()
@click.option(
    "-o",
    "--out",
    "out",
    metavar="FILE",
    default="",
    callback=refuse_empty_option_value,
    help="Write this file.  [default: gridbridge-support-TIME.tar.gz]",
)
@CONFIG_FILE
@FOLDER
def support(out: str, path: str, folder: str) -> None:
    """Pack a report for those who help you: configuration, logs, versions, counts and `gridbridge check`.

    The report has no secret and no person's words: no command line, environment, request, name of a job or campaign,
    reason of a drain, or account. Values of gridbridge.toml that may hold such words are masked. Of a log only
    numbers, names of clusters, queues and hosts, and words that gridbridge itself uses stay readable. Run the command
    as root; other users can't read all logs. Exit status: 0 done; 2 an error.

    \b
    Example:
      gridbridge support
      tar -xzOf gridbridge-support-20260301T120000Z.tar.gz | less
    """
    now = datetime.now(UTC)
    places = support_report.ReportedPlaces(configuration=path, published=folder)
    files = support_report.support_report_files(places, _lines_of_check(path))
    top = f"gridbridge-support-{now:%Y%m%dT%H%M%SZ}"
    target = out or f"{top}.tar.gz"
    data = support_report.pack_support_report(files, top, now)
    safe_files.replace_file_atomically(os.path.abspath(target), data, mode=0o600)
    output_and_errors.print_line(f"{target}: {len(files)} files, {len(data) // 1024 + 1} KiB")


def _lines_of_check(path: str) -> list[str]:
    try:
        report = check_command.check_site(Clock(), path)
    except GridbridgeError as error:
        return [f"gridbridge check failed: {error_on_one_line(error)}"]
    return [f"{item.state}: {item.name}: {item.found}; right: {item.right}; {item.hint}" for item in report.items]
