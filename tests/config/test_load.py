"""A configuration is accepted as a whole, or refused with all of its problems."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import PollerSection, TransferQueueSection
from tests.config.refusals import HOME, PORTS, SITE, problems_of

CLUSTERS = f"[cluster.alpha]\n{PORTS}[cluster.beta]\n{PORTS}"
QUEUE = '[queue.transfer-beta]\ncluster = "beta"\npending_limit = 2\nslots = 10\n'
GOOD = f"{HOME}[cluster.beta]\n{PORTS}{QUEUE}"
REFUSED = sorted((Path(__file__).parent / "refused").glob("*.toml"))
CONTINUED = re.compile(r"\n#  ")


def parsed(text: str) -> Policy:
    return configuration_file.parse_configuration("FILE", text.encode())


def test_missing_keys_have_their_defaults() -> None:
    assert parsed(GOOD) == Policy(
        site=SiteSection(cluster="alpha"),
        clusters={
            "alpha": ClusterSection(qmaster_port=6444, execd_port=6445),
            "beta": ClusterSection(qmaster_port=6444, execd_port=6445),
        },
        queues={"transfer-beta": TransferQueueSection(cluster="beta", pending_limit=2, slots=10)},
        poller=PollerSection(),
    )


@pytest.mark.parametrize(("home", "kind"), [('[cluster.alpha]\nkind = "oar"\n', ClusterKind.OAR), ("", None)])
def test_a_site_without_queues_may_have_a_home_of_oar_or_none(home: str, kind: ClusterKind | None) -> None:
    policy = parsed(f"{SITE}{home}[cluster.beta]\n{PORTS}")

    assert (policy.home_cluster_section.kind if policy.home_cluster_section else None) == kind
    assert policy.why_no_transfer_queues
    assert not policy.is_single_user_site


def test_remote_account_names_are_read_from_users() -> None:
    by_ssh = 'ssh = "far:2222"\n[cluster.beta.users]\nalice = "al"\n'
    beta = parsed(GOOD.replace(QUEUE, by_ssh + QUEUE)).clusters["beta"]

    assert (beta.ssh, beta.users) == ("far:2222", {"alice": "al"})


def test_a_whole_number_is_accepted_for_a_float_key() -> None:
    interval_s = parsed(GOOD + "[poller]\ninterval_s = 6\n").poller.interval_s

    assert (float, 6.0) == (type(interval_s), interval_s)


def expected_problems(text: str) -> Iterator[str]:
    """Yield the problems: `#: WHY` behind a wrong line, `#- WHY` behind a key, or a line `#: PROBLEM`."""
    section = ""
    for line in CONTINUED.sub(" ", text).splitlines():
        wrong, mark, why = re.fullmatch(r"(.*?)(?: *#([:-]) (.*))?", line).groups()  # type: ignore[union-attr]
        if wrong.startswith("["):
            section = wrong
        subject = wrong.partition(" = ")[0] if mark == "-" else wrong
        if mark:
            yield why if not wrong else f"{section}: {why}" if wrong == section else f"{section} {subject}: {why}"


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_each_wrong_line_of_a_configuration_is_reported_with_its_remedy(path: Path) -> None:
    text = path.read_text()

    assert sorted(problems_of(text)) == sorted(expected_problems(text))


def test_problems_are_reported_in_the_order_of_the_sections_and_unknown_keys_first() -> None:
    text = f"{SITE}min_uid = 0\n{CLUSTERS}{QUEUE.replace('slots', 'slot').replace('beta', 'gamma')}stagd = 5\n[poler]\n"

    assert [problem.partition(":")[0] for problem in problems_of(text)] == [
        "[site] min_uid = 0",
        "[queue.transfer-gamma] slot",
        "[queue.transfer-gamma] stagd",
        "[poler]",
        '[queue.transfer-gamma] cluster = "gamma"',
    ]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("demand", 'schedule = "0-24 9-2"'),
        ("demand", 'schedule = "mon-fri 8-20 2-10, 0-24 6-5"'),
        ("demand", 'schedule = "0-25 0-2"'),
        ("demand", 'schedule = "0-24 0--2"'),
        ("demand", 'schedule = "day 0-24 0-2"'),
        ("demand", "budget_hour = nan"),
        ("demand", "budget_month = inf"),
        ("demand", "budget_month = -1"),
        ("demand", "billing_s = 0"),
        ("demand", "billing_s = nan"),
        ("pool.p", "price = nan"),
        ("pool.p", "price = inf"),
        ("pool.p", "price = -inf"),
        ("pool.p", "price = -1"),
        ("pool.p", 'price = "cheap"'),
        ("pool.p", 'prices = "22-25=0.1"'),
        ("pool.p", 'prices = "22-6=-0.1"'),
        ("pool.p", 'prices = "22-6=nan"'),
        ("pool.p", 'prices = "22-6=inf"'),
        ("pool.p", 'prices = "22-6"'),
        ("pool.p", "quota = -1"),
        ("pool.p", "quota = 1.5"),
        ("pool.p", "quota = inf"),
        ("pool.p", "slots = 0"),
        ("pool.p", "limit = -1"),
        ("squeeze", "minimal_reserve = nan"),
        ("squeeze", "target_reserve = inf"),
    ],
)
def test_an_impossible_elastic_value_is_refused_with_its_key(section: str, line: str) -> None:
    key = line.partition(" ")[0]

    (problem,) = problems_of(f"{HOME}[{section}]\n{line}\n")
    assert problem.startswith(f"[{section}] {key}")


@pytest.mark.parametrize("schedule", ["", "0-24 0-0", "0-24 2-2", "mon-fri 8-20 2-10, 0-24 0-5"])
def test_a_valid_schedule_is_accepted(schedule: str) -> None:
    text = f'{HOME}[demand]\nschedule = "{schedule}"\n'

    assert configuration_file.parse_configuration("FILE", text.encode()).demand.schedule == schedule
