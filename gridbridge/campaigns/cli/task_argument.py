"""A task of a campaign, as it is typed."""

import click

from gridbridge.campaigns.tools import task_views


def typed_task(text: str) -> tuple[int, int]:
    """Return the campaign and the task of a CIGRI_JOB_ID after -j; UsageError for none."""
    try:
        return task_views.read_job(text)
    except ValueError as error:
        raise click.UsageError(f"-j {error}") from error
