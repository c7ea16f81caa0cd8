"""A mistake in a JDL is reported with its line and original spelling."""

import pytest

from tests.campaigns.submission.jdl_builder import wrong_with

GLOBAL_LAST = """{
  "name": "a",
  "clusters": {
    "beta": {"walltime": "1:0", "exec_file": "x"},
    "gamma": {"Nosuch": ["walltime"]}
  },
  "WallTime": "bad", "exec_file": "y", "nb_jobs": 1, "name":
    "b"
}"""
IN_TOML = """name = "a"
nb_jobs = 1
walltime = '''
exec_file = no'''
exec_file = "x"
[clusters.beta]
walltime = "1:0"
Nosuch = 1
[clusters]
"gamma" = { max_jobs = 0 }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GLOBAL_LAST,
            [
                "n:7: name: repeated key",
                'n:7: WallTime = "bad": not a time',
                "n:5: gamma.Nosuch: unknown key",
            ],
        ),
        (
            IN_TOML,
            [
                'n:3: walltime = "exec_file = no": not a time',
                "n:8: beta.Nosuch: unknown key",
                "n:10: gamma.max_jobs = 0: out of range",
            ],
        ),
    ],
    ids=["JSON", "TOML"],
)
def test_a_mistake_in_a_jdl_is_reported_with_its_line_and_spelling(text: str, expected: list[str]) -> None:
    assert wrong_with(text) == expected
