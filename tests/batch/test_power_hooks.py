"""Tests of oar-hooks/wake-up and oar-hooks/sleep, by which OAR asks to wake and halt nodes."""

import subprocess
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[2] / "oar-hooks"
WISHES = pytest.mark.parametrize(("hook", "wish"), [("wake-up", "wake"), ("sleep", "sleep")])
LIMIT_S = 1.0  # OAR's metascheduler waits for a hook


OAR = "#!/bin/sh\nprintf '%s\\n' \"$*\" >>{log}\n"


def asked(folder: Path) -> Path:
    return folder.parent / f"{folder.name}-oar" / "asked"


def call(hook: str, folder: Path, names: bytes) -> int:
    oar = asked(folder).parent
    oar.mkdir(exist_ok=True)
    (oar / "oarnodesetting").write_text(OAR.format(log=asked(folder)))
    (oar / "oarnodesetting").chmod(0o755)
    env = {"PATH": f"{oar}:/usr/bin:/bin", "GRIDBRIDGE_POWER": str(folder)}
    done = subprocess.run((str(HOOKS / hook),), input=names, env=env, capture_output=True, timeout=LIMIT_S, check=False)
    return done.returncode


@WISHES
@pytest.mark.parametrize(
    "names", [b"n1\nn2.example\n", b"n1 n2.example\n", b"n1\t n2.example"], ids=["lines", "blanks", "tab"]
)
def test_a_hook_stores_the_names_of_nodes(hook: str, wish: str, names: bytes, tmp_path: Path) -> None:
    """OAR passes one name in each line, or all names in one line."""
    assert call(hook, tmp_path, names) == 0

    (file,) = tmp_path.iterdir()
    assert file.name.startswith(f"{wish}.")
    assert file.read_text() == "n1\nn2.example\n"


def test_the_sleep_hook_sets_nodes_absent_in_oar(tmp_path: Path) -> None:
    """OAR would otherwise start jobs on the nodes."""
    call("wake-up", tmp_path, b"n1\n")
    call("sleep", tmp_path, b"n1 n2.example\n")
    call("sleep", tmp_path, b"')--\n")

    words = "-n -s Absent --sql network_address IN ('n1','n2.example')\n"
    assert asked(tmp_path).read_text() == words


@WISHES
@pytest.mark.parametrize("names", [b"", b"\n", b"../../etc/passwd\n", b"-n;id\n", b"$(id)\n"])
def test_a_hook_ignores_invalid_node_names(hook: str, wish: str, names: bytes, tmp_path: Path) -> None:
    assert call(hook, tmp_path, names) == 0
    assert list(tmp_path.glob(f"*{wish}*")) == []


@WISHES
def test_a_hook_fails_without_its_folder(hook: str, wish: str, tmp_path: Path) -> None:
    assert call(hook, tmp_path / wish, b"n1\n") == 1


@WISHES
def test_two_hook_calls_write_two_files(hook: str, wish: str, tmp_path: Path) -> None:
    call(hook, tmp_path, b"n1\n")
    call(hook, tmp_path, b"n2\n")

    assert sorted(one.read_text() for one in tmp_path.glob(f"{wish}.*")) == ["n1\n", "n2\n"]
