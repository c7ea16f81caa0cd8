"""Where an error came from, for who looks for a mistake of ours."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from gridbridge.cli import output
from gridbridge.errors import OutputReaderGone


@contextmanager
def traced(is_debug: bool) -> Iterator[None]:
    """Show each error's traceback on standard error, but of what was typed wrong; it goes on."""
    try:
        yield
    except (click.ClickException, click.Abort, OutputReaderGone):
        raise
    except Exception:
        if is_debug:
            output.complain(traceback.format_exc().rstrip("\n"))
        raise
