"""gridbridge support as administrators see it."""

import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from gridbridge.cli.main import gridbridge


def test_the_report_is_a_private_file_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site with a broken configuration needs the report most."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gridbridge.toml").write_text("[site\n")

    done = CliRunner().invoke(gridbridge, ["support", "--config", "gridbridge.toml", "--published", str(tmp_path)])

    (report,) = tmp_path.glob("gridbridge-support-*.tar.gz")
    assert (done.exit_code, done.output.partition(": ")[0]) == (0, report.name)
    assert report.stat().st_mode & 0o777 == 0o600
    with tarfile.open(report) as archive:
        check = archive.extractfile(f"{report.name.removesuffix('.tar.gz')}/check.txt")
        assert check
        assert "line 1" in check.read().decode()


def test_a_folder_that_is_not_there_gives_one_line(tmp_path: Path) -> None:
    target = tmp_path / "none" / "report"

    done = CliRunner().invoke(gridbridge, ["support", "--out", str(target), "--config", str(tmp_path / "x")])

    assert str(done.exception) == f"{target}: No such file or directory"
