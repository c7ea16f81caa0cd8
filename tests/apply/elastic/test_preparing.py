"""What a machine is prepared by: a file that is missing is a mistake in the configuration."""

from pathlib import Path

import pytest

from gridbridge.apply.elastic.preparing import Preparing
from gridbridge.errors import ConfigError
from gridbridge.model.elastic.joining import Joining
from gridbridge.model.elastic.sections import Bootstrap
from gridbridge.model.route import Cell

NODE = Joining(name="alpha-n7", address="127.0.0.1")
CELL = Cell(root="/", cell="c", qmaster_port="1", execd_port="2", binaries="", timeout_s=5)


def said(preparing: Preparing) -> str:
    """Return what is refused about it."""
    with pytest.raises(ConfigError) as told:
        preparing.prepare(NODE, ())
    return str(told.value)


def test_files_that_are_missing_or_no_text_are_told_with_their_keys(tmp_path: Path) -> None:
    """Anything else would end the round of all nodes."""
    mounts = tmp_path / "fstab"
    settings = Bootstrap(steps="mounts", mounts=str(mounts))
    preparing = Preparing(settings=settings, cell=CELL)

    assert f"[bootstrap] mounts: {mounts}: No such file or directory" == said(preparing)
    mounts.write_bytes(b"\xff")
    assert f"[bootstrap] mounts: {mounts}: no UTF-8" == said(preparing)
