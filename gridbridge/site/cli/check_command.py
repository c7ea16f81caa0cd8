"""gridbridge check: checks the whole site, and prints what is wrong."""

from dataclasses import asdict

import click

from gridbridge.cli import output
from gridbridge.cli.shared_options import CONFIG_FILE
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.shell.clock import Clock
from gridbridge.site import check as service

STATUS = {FindingSeverity.OK: 0, FindingSeverity.WARNING: 1, FindingSeverity.BROKEN: 2}
HEAD = ("STATE", "ITEM", "FOUND", "RIGHT")


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")
@click.option("--all", "is_all", is_flag=True, help="Show what is right as well.")
@CONFIG_FILE
def check(is_json: bool, is_all: bool, path: str) -> None:
    """Check the site and say what mends it.

    It looks at rights, files, both cells and the poller. Run it as root on the transfer host.
    Below the table stands the command that mends each item, to be pasted there. To anybody
    else it says what it could not see, as a warning. With --config it judges the site by that
    file, though the programs read another file: use it to check a change beforehand.

    Exit status: 0 all is well, 1 warnings, 2 something is broken.

    \b
    Example:
      gridbridge check
      gridbridge check --json
    """
    report = service.check_site(Clock(), path)
    if is_json:
        output.print_json(asdict(report))
    else:
        _show(report, is_all)
    raise SystemExit(STATUS[report.worst])


def _show(report: service.CheckReport, is_all: bool) -> None:
    shown = [item for item in report.items if is_all or item.state != FindingSeverity.OK]
    if shown:
        rows = [(item.state.value, item.name, item.found, item.right) for item in shown]
        output.print_table(HEAD, rows, lambda row: output.STYLES[row[0]])
    for paragraph in dict.fromkeys(_mend(item) for item in shown if item.commands or item.hint):
        output.print_line(paragraph)
    right = sum(item.state in (FindingSeverity.OK, FindingSeverity.NOTE) for item in report.items)
    output.print_line(f"{report.worst.value}: {right} of {len(report.items)} items are right")


def _mend(item: service.CheckReportItem) -> str:
    where = f" (to be run on {item.where})" if item.where else ""
    title = f"\n# {item.name}{where}" + (f": {item.hint}" if item.hint else "")
    return "\n".join((title, *item.commands))
