"""Storage areas that contradict the rest of gridbridge.toml are refused, one line each."""

import pytest

from gridbridge.config import configuration_file
from gridbridge.model.config_key_descriptions import ABSOLUTE_PATH, CLUSTER_NAME, OBJECT_NAME
from tests.config.refusals import HOME, problems_of

DISK = f'{HOME}[storage.disk]\ncluster = "alpha"\npath = "/disk"\n'


def test_a_storage_area_needs_a_cluster_and_a_path() -> None:
    assert [*configuration_file.parse_configuration("FILE", DISK.encode()).storage] == ["disk"]


@pytest.mark.parametrize(
    ("section", "keys", "problem"),
    [
        ("x", 'cluster = "beta"\npath = "/x"', ' cluster = "beta": undefined; expected one of alpha'),
        ("x", 'cluster = ["alpha"]\npath = "/x"', f' cluster = ["alpha"]: wrong type; expected {CLUSTER_NAME.right}'),
        (
            "x",
            'cluster = "alpha"\npath = "/disk/"',
            ' path = "/disk": the folder of disk; expected a folder of its own',
        ),
        ("x", 'cluster = "alpha"\npath = "disk"', f' path = "disk": wrong form; expected {ABSOLUTE_PATH.right}'),
        ("x", 'cluster = "alpha"', f" path: missing; expected {ABSOLUTE_PATH.right}"),
        (
            "x",
            'cluster = "alpha"\npath = "/x"\nmax_bytes = -1',
            " max_bytes = -1: out of range; expected a whole number, 0 to 1000000000000000000 bytes",
        ),
        ('"a/b"', 'cluster = "alpha"\npath = "/x"', f": wrong name; expected {OBJECT_NAME.right}"),
        (
            "alpha",
            'cluster = "alpha"\npath = "/x"',
            ": the name of a cluster; expected another name, such as alpha-data",
        ),
    ],
)
def test_a_wrong_storage_area_is_refused_with_the_expected_value(section: str, keys: str, problem: str) -> None:
    assert problems_of(f"{DISK}[storage.{section}]\n{keys}\n") == [f"[storage.{section}]{problem}"]
