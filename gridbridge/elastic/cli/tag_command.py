"""gridbridge balance tag: mark hosts that a squeeze may switch on, and their order."""

import re

import click

from gridbridge.cli import output
from gridbridge.cli.shared_options import CONFIG_FILE, JSON, exit_75_without_cluster_answer
from gridbridge.elastic.balancer import squeeze_preview as service

SUFFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}").fullmatch


@click.command()
@click.argument("host", metavar="HOST")
@click.argument("suffix", metavar="SUFFIX")
@click.option("--remove", is_flag=True, help="Take the tag from the host.")
@CONFIG_FILE
@JSON
def tag(host: str, suffix: str, remove: bool, path: str, is_json: bool) -> None:
    """Mark a host as one that a squeeze may switch on, as htools:standby:SUFFIX in its cell.

    Hosts are woken in the order of their suffixes: numbers first, as numbers, then words. `auto`
    is what a squeeze itself writes, and alone removes; such hosts come last. It needs a manager of
    the cell. Exit status: 0; 2 the cell refused it, or a wrong word; 75 the cell gave no answer.

    \b
    Example:
      gridbridge balance tag n3 1
      gridbridge balance tag n3 1 --remove
    """
    if not HOST(host):
        raise click.BadParameter(f"{host!r}; expected the name of a host", param_hint="HOST")
    if not SUFFIX(suffix):
        right = "letters, digits, _, . and -, and a letter or digit first"
        raise click.BadParameter(f"{suffix!r}; expected {right}", param_hint="SUFFIX")
    tags = exit_75_without_cluster_answer(
        lambda: service.change_standby_tag(host, suffix, is_wanted=not remove, path=path)
    )
    if is_json:
        output.print_json({"host": host, "tags": list(tags)})
        return
    output.print_line(f"{host}: {' '.join(tags) or 'no tags'}")
