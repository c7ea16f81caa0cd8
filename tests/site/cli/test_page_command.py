"""gridbridge page: the file, the exit status, and what an unreadable or missing published file leaves."""

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.decisions.site.site_page import make_site_page
from gridbridge.site.site_page_files import PublishedSiteReader, render_site_page
from tests.shown import NOW
from tests.site.page_sites import HOSTILE, REVERSED, busy_site
from tests.state_files import Acting

ROOT = Path(__file__).parents[3]
NOBODY = 65534
TITLES = re.compile(r"<h2 id=\"(\w+)\"")
FILES = (
    *("published/service.json", "published/load", "published/clusters/beta.json", "published/transfers.json"),
    *("published/campaigns.json", "published/campaign_cycle.json", "published/campaign-events.json"),
    *("published/campaign-clusters.json", "published/drained/delta", "published/storage-areas.json"),
    *("balance/balance.json", "balance/nodes.json"),
)
BY_FILE = {  # a text of the page that comes from one file alone
    "published/transfers.json": "<strong>14.7</strong>",
    "published/campaigns.json": "lattice-sweep",
    "published/campaign-events.json": "12 tasks failed at beta with exit status 3",
    "published/drained/delta": "new disks on Tuesday",
    "published/storage-areas.json": "beta-scratch",
    "balance/balance.json": "Last round: 2 jobs wait: add 1",
    "balance/nodes.json": "Waiting tasks in the last 7 days",
}


def page(folder: Path, out: Path | None = None) -> Result:
    words = ("--published", f"{folder}/published", "--balance-published", f"{folder}/balance")
    return CliRunner().invoke(gridbridge, ("page", "--out", str(out or folder), *words), standalone_mode=False)


def page_at_noon(folder: Path) -> str:
    """Return the page as if the time were that of the site's files."""
    site = PublishedSiteReader(f"{folder}/published", f"{folder}/balance").read_site(NOW)
    return render_site_page(make_site_page(site, NOW))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    busy_site(tmp_path)
    return tmp_path


def test_the_page_is_one_world_readable_file_that_replaces_the_old_page(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "www"
    out.mkdir()
    (out / "index.html").write_text("old")
    os.link(out / "index.html", tmp_path / "old")
    done = page(site, out)

    assert (done.return_value, done.output, os.listdir(out)) == (0, "", ["index.html"])
    assert (out / "index.html").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "old").read_text() == "old"
    assert "lattice-sweep" in (out / "index.html").read_text()


def test_names_are_escaped_and_no_transfer_names_its_owner(site: Path) -> None:
    text = page_at_noon(site)

    assert (HOSTILE in text, [letter for letter in REVERSED[:2] if letter in text]) == (False, [])
    assert text.count("&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;") == 2
    assert not re.search(r"<script|<img|<link|<[^>]*\bon\w+=|javascript:|https?:", text)
    transfers = text.partition('id="transfers">')[2].partition("</section>")[0]
    assert "14.7" in transfers
    assert [owner for owner in ("alice", "bob") if owner in transfers] == []


@pytest.mark.parametrize("name", FILES)
def test_an_unreadable_or_missing_file_hides_only_its_own_part(site: Path, name: str) -> None:
    """The page names the unreadable file; a capability that the site does not use has no file."""
    whole = page_at_noon(site)
    (site / name).write_bytes(b"{")
    unreadable = page_at_noon(site)
    (site / name).unlink()
    missing = page_at_noon(site)

    assert {file for file, shown in BY_FILE.items() if shown not in whole} == set()
    assert f"<li>{site}/{name}: " in unreadable
    assert f"{site}/{name}" not in missing
    for text in (unreadable, missing):
        assert {file for file, shown in BY_FILE.items() if shown not in text} <= {name}


def test_an_unreadable_file_is_named_on_standard_error_with_status_1(site: Path) -> None:
    (site / "published/transfers.json").write_bytes(b"{")
    done = page(site)

    assert done.return_value == 1
    assert done.stderr == (
        f"gridbridge: {site}/published/transfers.json: not what this version of gridbridge publishes\n"
    )
    assert f"<li>{site}/published/transfers.json: " in (site / "index.html").read_text()


def test_old_files_are_said_to_be_old(site: Path) -> None:
    """The site's files are from 2026-03-01."""
    page(site)
    text = (site / "index.html").read_text()

    for words in ("poller is silent", "runner has published no cycle", "balance has run no round"):
        assert f"<li>gridbridge-{words}" in text
    assert "transfer-beta" in text


def test_a_host_without_published_files_gets_a_page_that_says_so(tmp_path: Path) -> None:
    done, text = page(tmp_path), (tmp_path / "index.html").read_text()

    assert done.return_value == 1
    assert done.stderr.startswith(f"gridbridge: {tmp_path}/published: no such folder; run this on the transfer host")
    assert f"<li>{tmp_path}/published: no such folder" in text
    assert TITLES.findall(text)[1:] == ["clusters", "queues", "campaigns", "transfers", "nodes", "storage", "events"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_an_account_that_may_write_the_folder_alone_makes_the_same_page(acting_as: Acting) -> None:
    """The published files belong to root, and are readable for everybody."""
    with TemporaryDirectory() as name:
        site, out = Path(name), Path(name) / "www"
        site.chmod(0o755)
        busy_site(site)
        out.mkdir()
        os.chown(out, NOBODY, NOBODY)
        with acting_as(NOBODY):
            done = page(site, out)

        assert (done.return_value, done.output) == (0, "")
        assert all(shown in page_at_noon(site) for shown in BY_FILE.values())
        assert (out / "index.html").stat().st_uid == NOBODY
        assert "lattice-sweep" in (out / "index.html").read_text()


@pytest.mark.parametrize(
    ("out", "right"), [("missing", "missing: no such folder; expected a folder"), ("file", "file: no such folder")]
)
def test_an_unusable_folder_is_refused(site: Path, out: str, right: str) -> None:
    (site / "file").touch()

    assert f"{site}/{right}" in str(page(site, site / out).exception)
    assert not (site / "index.html").exists()


def test_timer_and_cron_run_the_command_under_the_account_and_for_the_folder_of_the_how_to() -> None:
    unit = (ROOT / "conf/systemd/gridbridge-page.service").read_text()
    (cron,) = re.findall(r"^\*.*", (ROOT / "conf/cron.d/gridbridge-page").read_text(), re.MULTILINE)
    how_to = (ROOT / "docs/how-to/operate.md").read_text()
    values = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
    command = values["ExecStart"].split()

    assert cron.split()[5:] == [values["User"], *command]
    assert command[:3] == ["/opt/gridbridge/bin/gridbridge", "page", "--out"]
    assert command[3:] == [values["ReadWritePaths"]]
    assert f"useradd --system {values['User']}\ninstall -d -o {values['User']} {command[3]}\n" in how_to
