"""Published files are readable for their readers, with any umask of the service."""

import os
from pathlib import Path

from gridbridge.state import drains, published_files


def test_the_umask_does_not_change_the_modes_of_published_folders(tmp_path: Path) -> None:
    """A service that an administrator starts has the administrator's umask."""
    before = os.umask(0o077)
    try:
        published_files.publish_file(str(tmp_path / "a/b/file"), b"", published_files.UNLISTED)
        drains.make_cluster_drains_folder(str(tmp_path / "c"))
    finally:
        os.umask(before)

    modes = {name: oct((tmp_path / name).stat().st_mode & 0o777) for name in ("a", "a/b", "c")}
    assert modes == {"a": "0o755", "a/b": "0o711", "c": "0o755"}
    assert (tmp_path / "c/drained").stat().st_mode & 0o777 == 0o755
