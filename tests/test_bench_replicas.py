"""The benchmark's commands for replicas work on a small dataset on this machine."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

from bench.replicas import CARRY

RSYNC = r"""#!/bin/sh
for last; do from=$to; to=$last; done
case "$*" in
    *--files-from=-*) tr '\0' '\n' | while read -r path; do cp "$path" "$to"; done ;;
    *) cp -r "$from." "$to" ;;
esac
"""
OURS = "from gridbridge.shell import rsync; rsync.PROGRAM = {!r}\n"


def test_each_kind_of_copy_is_timed_and_nothing_is_left(tmp_path: Path) -> None:
    """A local rsync replaces the remote one: the test checks the calls."""
    program, home = tmp_path / "rsync", tmp_path / "home"
    home.mkdir()
    program.write_text(RSYNC)
    program.chmod(0o755)
    account = pwd.getpwuid(os.getuid()).pw_name
    argv = (sys.executable, "-c", OURS.format(str(program)) + CARRY, "1", "4", account, "")
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = os.environ | {"HOME": str(home), "PATH": path}
    told = subprocess.run(argv, env=env, capture_output=True, check=False)

    assert told.returncode == 0, told.stderr.decode()
    best_s = json.loads(told.stdout)
    assert set(best_s) == {"plain", "carried", "made"}
    assert all(0 < one < 60 for one in best_s.values())
    assert list(home.iterdir()) == []
