"""Secrets are read only from private files, and no message contains them."""

import os
from pathlib import Path

import pytest

from gridbridge.elastic.providers import site_program_provider
from gridbridge.errors import ProviderPermanentFailure

SECRET = "hush%(x)s"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.touch(mode=0o600)
    file.write_text(f"# ours\n[default]\nkey = me\nSecret = {SECRET}\n")
    return file


def test_a_private_credentials_file_is_read(path: Path) -> None:
    assert {"key": "me", "Secret": SECRET} == site_program_provider.read_private_credentials(str(path))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_credentials_file_that_others_can_read_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)

    with pytest.raises(ProviderPermanentFailure, match=f"^{path}: .*chmod") as refused:
        site_program_provider.read_private_credentials(str(path))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"key = {SECRET}\n", "lines NAME = VALUE below a line .default."),
        (f"[default]\n{SECRET}\n", "lines NAME = VALUE below a line .default."),
        (f"[default]\nkey = a\nkey = {SECRET}\n", "lines NAME = VALUE below a line .default."),
        (f"[other]\nkey = {SECRET}\n", "lines NAME = VALUE below a line .default."),
        ("\udcff", "no UTF-8"),
        ("x" * 70_000, "larger than 65536 bytes"),
    ],
    ids=["no section", "no value", "a name twice", "another section", "no text", "too long"],
)
def test_the_error_about_an_invalid_credentials_file_contains_no_secret(path: Path, content: str, words: str) -> None:
    path.write_bytes(content.encode(errors="surrogateescape"))

    with pytest.raises(ProviderPermanentFailure, match=f"^{path}: .*{words}") as refused:
        site_program_provider.read_private_credentials(str(path))
    assert SECRET not in str(refused.value)


def test_links_folders_and_missing_files_are_refused_as_secrets(path: Path) -> None:
    link, missing = path.with_name("link"), path.with_name("missing")
    link.symlink_to(path)

    for wrong in (link, path.parent, missing):
        with pytest.raises(ProviderPermanentFailure, match=f"^{wrong}: "):
            site_program_provider.read_secret_file(str(wrong))


@pytest.mark.root
def test_a_secret_file_of_another_owner_is_refused(path: Path) -> None:
    os.chown(path, 1, 1)

    with pytest.raises(ProviderPermanentFailure, match="owned by uid 1, not 0"):
        site_program_provider.read_secret_file(str(path))
