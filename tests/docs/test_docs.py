"""The documentation is complete: it has every command, every link has a target, and blocks can be copied."""

import ast
import configparser
import os
import re
import runpy
import textwrap
from pathlib import Path

import click
import pytest
from pygments.token import Generic

from gridbridge.batch.privileged_helper_calls import PATIENCE_S
from gridbridge.cli.main import gridbridge
from gridbridge.config import configuration_file
from gridbridge.model.config_key_descriptions import ConfigKeyDescription
from gridbridge.model.fixed_paths import HOME
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection
from gridbridge.transfer.starter.sensor import HUNG_S
from tests.docs.console import BLOCK, PAGES, ROOT, console, matches

KINDS = ("tutorials", "how-to", "reference", "explanation")
COMMANDS = ROOT / "docs" / "reference" / "commands"
NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def scripts() -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser["options.entry_points"]["console_scripts"].split("\n")
    return [line.partition("=")[0].strip() for line in lines if line]


def man_page(name: str) -> Path:
    found = list(COMMANDS.glob(f"{name}.[18].md"))
    assert len(found) == 1, f"docs/reference/commands/{name}.SECTION.md"
    return found[0]


@pytest.mark.parametrize("script", scripts())
def test_every_program_has_a_man_page_with_an_example_and_is_in_the_list(script: str) -> None:
    page = man_page(script)

    assert "## Example" in page.read_text() or ".. click::" in page.read_text()
    assert f"commands/{page.name}" in (ROOT / "docs" / "reference" / "commands.md").read_text()


@pytest.mark.parametrize("name", gridbridge.list_commands(click.Context(gridbridge)))
def test_every_subcommand_has_a_man_page_and_is_in_the_list(name: str) -> None:
    page = man_page(f"gridbridge-{name}")

    assert f":prog: gridbridge {name}\n" in page.read_text()
    assert f"commands/{page.name}" in (ROOT / "docs" / "reference" / "commands.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text()) if "://" not in link]

    lost = [link for link in links if not _leads_somewhere(page, link)]
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_of_prose_is_longer_than_120_characters(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.lstrip().startswith("|")]

    assert [line for line in lines if len(line) > 120] == []


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def events() -> set[str]:
    texts = (
        node.value
        for path in (ROOT / "gridbridge").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {name for text in texts for name in re.findall(r"\bevent=(\w+)", text)}


def test_the_page_on_events_lists_every_event_of_the_log_and_no_other() -> None:
    page = (ROOT / "docs" / "reference" / "events.md").read_text()
    terms = re.findall(r"^(`\w+`(?:, `\w+`)*)\n: ", page, re.MULTILINE)
    listed = [name for term in terms for name in re.findall(r"`(\w+)`", term)]

    assert sorted(listed) == sorted(events())


def test_every_event_stands_as_such_in_the_text_that_logs_it() -> None:
    """An event name inserted at run time would be missing from the page unnoticed."""
    modules = (ROOT / "gridbridge").rglob("*.py")

    assert [str(path) for path in modules if re.search(r"event=[^\w$]", path.read_text())] == []


def test_the_readme_counts_its_commands() -> None:
    page = (ROOT / "README.md").read_text()
    told = re.search(r"^## (\w+) commands to a working transfer queue$", page, re.MULTILINE)
    assert told
    section = page[told.end() :].partition("\n## ")[0]
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    typed = [line for block in blocks for line in block.splitlines() if line != "..."]

    assert NUMBERS[len(typed)] == told[1]


def test_the_index_has_each_page_once_and_links_to_the_users() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    lists = re.findall(r"^```{toctree}\n(.*?)^```$", index, re.MULTILINE | re.DOTALL)
    listed = [line for each in lists for line in each.splitlines() if re.match("[a-z]", line)]
    docs = ROOT / "docs"
    tops = (page for folder in (docs, *KINDS) for page in (docs / folder).glob("*.md"))
    pages = {str(page.relative_to(docs).with_suffix("")) for page in tops} - {"index"}

    assert sorted(listed) == sorted(pages)
    assert "docs/how-to/users.md" in (ROOT / "README.md").read_text()


def test_installed_files_name_no_page_of_the_checkout() -> None:
    """Readers of the installation have man pages instead."""
    installed = [path for path in (ROOT / "conf").rglob("gridbridge*") if path.is_file()]

    assert [path.name for path in installed if "docs/" in path.read_text()] == []


def test_the_systemd_unit_runs_the_installed_poller_as_the_service_account() -> None:
    """Systemd ends a poller that gives no sign of life."""
    service = unit_section("poller")

    assert service["User"] == SiteSection(cluster="a").service_account
    assert service["ExecStart"] == "/opt/gridbridge/bin/gridbridge-poller"
    assert HOME == "/var/lib/gridbridge"  # that docs/how-to/operate.md names
    assert float(service["WatchdogSec"]) == HUNG_S


def unit_section(name: str) -> configparser.SectionProxy:
    """Return the section [Service] of a program's systemd unit, whose watchdog has been checked."""
    unit = configparser.ConfigParser()
    unit.read(ROOT / "conf" / "systemd" / f"gridbridge-{name}.service")
    service = unit["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert service["WatchdogSignal"] == "SIGKILL"  # a stopped program does not hear SIGABRT
    return service


@pytest.mark.parametrize("name", ["runner", "nikita"])
def test_a_program_of_campaigns_goes_on_by_systemd_or_comes_by_cron(name: str) -> None:
    """The program runs as the service account. Cron calls the program's hook with all arguments passed on."""
    service = unit_section(name)
    cron = (ROOT / "conf" / "cron.d" / "gridbridge-campaigns").read_text().splitlines()
    hook = ROOT / "oar-hooks" / name
    account, program = (SiteSection(cluster="a").service_account, f"/opt/gridbridge/bin/gridbridge-{name}")
    timeout: ConfigKeyDescription = ClusterSection.__dataclass_fields__["command_timeout_s"].metadata["setting"]

    assert (service["User"], service["ExecStart"]) == (account, f"{program} --loop")
    assert float(service["WatchdogSec"]) > max(timeout.high, PATIENCE_S)  # it beats after each call
    log = f"/var/lib/gridbridge/{name}.log"
    assert f"* * * * * {account} /opt/gridbridge/oar-hooks/{name} >>{log} 2>&1" in cron
    assert os.access(hook, os.X_OK)
    assert hook.read_text().splitlines()[-1] == f'exec {program} "$@"'


def test_the_way_back_that_the_page_on_setting_up_shows_is_a_configuration(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "setup.md").read_text()
    shown = page.partition("<<'END'\n")[2].partition("    END\n")[0]
    (tmp_path / "gridbridge.toml").write_text(textwrap.dedent(shown))

    policy = configuration_file.load_configuration(str(tmp_path / "gridbridge.toml"))

    assert policy.site.cluster == "beta"
    assert policy.clusters["alpha"].remote_spool_dir == "/var/spool/gridbridge-beta"


@pytest.mark.parametrize(
    ("page", "typed"),
    [
        (
            "x\n```console\n$ a b\none\ntwo\n# c\n```\n```sh\n$ not run\n```\n",
            [("$", "a b", "one\ntwo\n"), ("#", "c", "")],
        ),
        (
            "```console\n$ cat > x <<'.'\none\n.\n$ cat x\none\n```\n",
            [("$", "cat > x <<'.'\none\n.", ""), ("$", "cat x", "one\n")],
        ),
    ],
    ids=["commands and output", "a here-document"],
)
def test_a_console_block_is_commands_with_their_output(page: str, typed: list[tuple[str, str, str]]) -> None:
    assert [(each.prompt, each.command, each.expected) for each in console(page)] == typed


def test_a_here_document_without_an_end_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="nothing ends the here-document"):
        console("```console\n$ cat > x <<'.'\none\n```\n")


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("", "", True),
        ("", "x\n", False),
        ("a ... c\n", "a b c\n", True),
        ("a ... c\n", "a b d\n", False),
        ("a\n...\n", "a\nb\nc\n", True),
        ("a\n...\n", "a\n", True),
        ("...\n", "", True),
        ("a.b\n", "axb\n", False),
        ("...\nend\n", "1\n2\nend\n", True),
        ("...\nend\n", "1\nend\n2\n", False),
    ],
)
def test_dots_stand_for_anything(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) == same


LEXER = runpy.run_path(str(ROOT / "docs/console.py"))["ConsoleLexer"]
BLOCKS = [block for page in PAGES for block in BLOCK.findall(page.read_text())]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_copy_button_copies_only_the_commands_of_a_block(block: str) -> None:
    tokens = LEXER().get_tokens(block)
    copied = "".join(word for kind, word in tokens if kind not in (Generic.Prompt, Generic.Output))

    typed = [each.command for each in console(f"```console\n{block}```\n")]
    assert "\n".join(typed) == copied.strip()
