"""Wrong values of elastic sections in gridbridge.toml are refused, one line each."""

import pytest

from gridbridge.config import configuration_file
from tests.config.refusals import HOME, problems_of


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
