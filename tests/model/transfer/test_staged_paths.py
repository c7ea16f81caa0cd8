"""Declared staging lists are decoded exactly or refused with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import UnstageablePaths
from gridbridge.model.transfer.staged_paths import (
    IN,
    OUT,
    decode_staging_path_list,
    path_in_remote_job_folder,
    staging_path_list_problem,
)

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a b:-c:./d/", ("a b", "-c", "./d/")),
        ("a%2Cb:c%3ad:e%25:%0A", ("a,b", "c:d", "e%", "\n")),
        ("%C3%BC:ü", ("ü", "ü")),
        ("%FF", ("\udcff",)),
    ],
    ids=["none", "one", "several", "coded", "utf-8", "any byte"],
)
def test_a_staging_list_separates_coded_paths_by_colons(text: str, expected: tuple[str, ...]) -> None:
    assert decode_staging_path_list(IN, text) == expected


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        (IN, "a:", "no path"),
        (IN, "/", "no path"),
        (IN, "a%00", "no path"),
        (IN, "%4", "two hexadecimal digits"),
        (IN, "%+1", "two hexadecimal digits"),
        (IN, "a/../b", "contains .."),
        (IN, "%2e%2e/b", "contains .."),
        (OUT, "/a", "is absolute"),
        (IN, "/a/x:x", "two paths have the same remote name 'x'"),
        (OUT, "x:./x", "two paths have the same remote name 'x'"),
    ],
    ids=["empty", "root", "NUL", "cut", "sign", "dots", "coded dots", "absolute", "twice", "same"],
)
def test_an_invalid_staging_list_is_refused_with_its_problem(key: str, text: str, told: str) -> None:
    assert told in staging_path_list_problem(key, text)


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/./b//c/", "a/b/c"), (".", "."), ("./", "."), ("/data/x/", "x")],
    ids=["relative", "all", "all with a slash", "absolute"],
)
def test_each_staged_path_has_a_place_in_the_remote_job_folder(path: str, name: str) -> None:
    assert path_in_remote_job_folder(path) == name


@given(names=st.lists(NAMES.filter(lambda name: name not in (".", "..")), unique=True, max_size=4))
def test_every_file_name_can_be_coded_in_a_staging_list(names: list[str]) -> None:
    coded = ":".join("".join(f"%{byte:02x}" for byte in name.encode()) for name in names)

    assert decode_staging_path_list(OUT, coded) == tuple(names)


def test_the_staging_error_names_the_valid_codes() -> None:
    with pytest.raises(UnstageablePaths, match="%2C is a comma, %3A a colon, %25 a percent sign"):
        decode_staging_path_list(IN, "50%")
