"""The page of a busy site in headless Chromium, on a phone and on a desktop, light and dark."""

import os
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from gridbridge.decisions.site.site_page import make_site_page
from gridbridge.site.site_page_files import PublishedSiteReader, render_site_page, write_site_page
from tests.shown import NOW
from tests.site.page_sites import HOSTILE, busy_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / ".build/page"
DOCS_PICTURE, UPPER_HALF = ROOT / "docs/static/page.webp", 1084
SECTIONS = ["Clusters", "Transfer queues", "Campaigns", "Transfers", "Nodes", "Storage areas", "Open events"]


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("Debian's chromium is missing; as root: tools/debian-packages chromium")
    from playwright.sync_api import sync_playwright  # slow, and only these tests need it

    with sync_playwright() as playwright:
        flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


def write_page(folder: Path, published: str, balance: str) -> str:
    """Write the page and return its URL."""
    site = PublishedSiteReader(published, balance).read_site(NOW)
    write_site_page(render_site_page(make_site_page(site, NOW)), str(folder))
    return f"file://{quote(str(folder))}/index.html"


@pytest.mark.parametrize("site", ["busy", "empty"])
def test_the_page_is_accessible_fits_its_window_and_loads_nothing(
    chromium: "Browser", tmp_path: Path, site: str
) -> None:
    """On a phone and a desktop, light and dark; a picture of each is left in .build/page.

    GOLDEN=new in the environment renews the picture in the documentation.
    """
    from axe_playwright_python.sync_playwright import Axe

    folders = busy_site(tmp_path, "monte-carlo") if site == "busy" else (str(tmp_path), str(tmp_path))
    address = write_page(tmp_path, *folders)
    for width, scheme in product((390, 1280), ("light", "dark")):
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        complaints = list[str]()
        page.on("console", lambda message, told=complaints: told.append(message.text))
        page.goto(address)
        page.screenshot(path=PICTURES / f"{site}-{width}-{scheme}.png", full_page=True)
        found = Axe().run(page)

        assert found.violations_count == 0, f"{width} {scheme}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert complaints == []
        assert page.locator("script, img, link").count() == 0
        assert [title for title in SECTIONS if page.get_by_role("heading", name=title).count()] == SECTIONS
        page.close()
    if os.environ.get("GOLDEN") == "new" and site == "busy":
        renew_docs_picture(PICTURES / "busy-1280-light.png")


def renew_docs_picture(picture: Path) -> None:
    """Write the upper half, in two thirds of its size."""
    from PIL import Image

    with Image.open(picture) as whole:
        half = whole.convert("RGB").crop((0, 0, whole.width, UPPER_HALF))
    half.resize((half.width * 2 // 3, half.height * 2 // 3)).save(DOCS_PICTURE, quality=85, method=6)


def test_hostile_names_are_shown_as_text(chromium: "Browser", tmp_path: Path) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 900})
    page.goto(write_page(tmp_path, *busy_site(tmp_path)))

    assert page.get_by_text(HOSTILE).count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.title() == "alpha: clusters and campaigns"
