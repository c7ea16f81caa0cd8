"""Storage areas that contradict the rest of gridbridge.toml are refused, a line each."""

import pytest

from gridbridge.config import configuration_file
from gridbridge.errors import ConfigError

SITE = """\
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 1
execd_port = 2
[storage.disk]
cluster = "alpha"
path = "/disk"
"""


def test_an_area_needs_a_cluster_and_a_path() -> None:
    (name,) = configuration_file.parse_configuration("f", SITE.encode()).storage

    assert "disk" == name


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('[storage.x]\ncluster = "beta"\npath = "/x"', 'f: [storage.x] cluster = "beta": undefined; one of alpha'),
        (
            '[storage.x]\ncluster = ["alpha"]\npath = "/x"',
            'f: [storage.x] cluster = ["alpha"]: wrong type;'
            " lower-case letters, digits and -, a letter first, at most 32",
        ),
        (
            '[storage.x]\ncluster = "alpha"\npath = "/disk/"',
            'f: [storage.x] path = "/disk": the folder of disk; a folder of its own',
        ),
        (
            '[storage.x]\ncluster = "alpha"\npath = "disk"',
            'f: [storage.x] path = "disk": wrong form; an absolute path in printable ASCII',
        ),
        ('[storage.x]\ncluster = "alpha"', "f: [storage.x] path: missing; an absolute path in printable ASCII"),
        (
            '[storage.x]\ncluster = "alpha"\npath = "/x"\nmax_bytes = -1',
            "f: [storage.x] max_bytes = -1: out of range; a whole number, 0 to 1000000000000000000 bytes",
        ),
        (
            '[storage."a/b"]\ncluster = "alpha"\npath = "/x"',
            'f: [storage."a/b"]: wrong name; letters, digits, _ . + and -, a letter or digit first',
        ),
        (
            '[storage.alpha]\ncluster = "alpha"\npath = "/x"',
            "f: [storage.alpha]: the name of a cluster; expected another name, such as alpha-data",
        ),
    ],
)
def test_what_is_wrong_is_told_with_what_would_be_right(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as told:
        configuration_file.parse_configuration("f", f"{SITE}{text}\n".encode())

    assert (wrong,) == told.value.problems
