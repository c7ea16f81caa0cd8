"""gridbridge page: writes what the published files say as a static HTML page."""

from datetime import datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FOLDER, refuse_empty_option_value
from gridbridge.decisions.site.site_page import make_site_page
from gridbridge.model.fixed_paths import BALANCE_PUBLISHED
from gridbridge.site import site_page_files


@click.command()
@click.option(
    "--out",
    metavar="DIR",
    required=True,
    callback=refuse_empty_option_value,
    help="Write index.html into this folder.",
)
@FOLDER
@click.option(
    "--balance-published",
    "balance",
    metavar="FOLDER",
    default=BALANCE_PUBLISHED,
    show_default=True,
    help="Folder of the balancer's published files.",
)
def page(out: str, folder: str, balance: str) -> int:
    """Write a web page of clusters, queues, transfers, campaigns, nodes, storage and events.

    The page is one file, DIR/index.html, without scripts and without links to other files, and is replaced atomically.
    It comes from published files only, so the command needs no right but to write DIR. The page shows what everybody
    may see: of people only the names and owners of campaigns, as gridstat does. A published file that is missing or old
    is named at the top of the page. Exit status: 0 done; 1 the page is written, but a published file is unreadable; 2 a
    wrong option or an unwritable folder.

    \b
    Example:
      gridbridge page --out /var/www/html/gridbridge
    """
    now = datetime.now().astimezone()
    site = site_page_files.PublishedSiteReader(folder, balance).read_site(now)
    site_page_files.write_site_page(site_page_files.render_site_page(make_site_page(site, now)), out)
    for trouble in site.troubles:
        output_and_errors.print_error(f"gridbridge: {trouble}")
    return int(bool(site.troubles))
