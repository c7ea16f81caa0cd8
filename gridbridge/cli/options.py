"""What commands share: their options, and how they print a time."""

from datetime import datetime, timedelta

import click

from gridbridge.model.places import CONFIG, PUBLISHED

FOLDER = click.option(
    "--published",
    "folder",
    metavar="FOLDER",
    default=PUBLISHED,
    show_default=True,
    help="Read the files that the service published here.",
)
CONFIG_FILE = click.option(
    "--config", "path", metavar="FILE", default=CONFIG, show_default=True, help="Read this file."
)
JSON = click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")


def clock(at: datetime | None, now: datetime) -> str:
    """Format a time by the reader's clock, with the day if it is not recent."""
    if at is None:
        return "-"
    is_recent = timedelta() <= now - at < timedelta(hours=24)
    return f"{at.astimezone():{'%H:%M:%S' if is_recent else '%Y-%m-%d %H:%M:%S'}}"
