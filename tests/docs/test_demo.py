"""The demo notices what went wrong, and without root it plays on embedded clusters."""

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.docs.console import ROOT


@pytest.fixture(scope="module")
def demo() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "lab" / "demo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "lab"))
        spec.loader.exec_module(module)
        yield module


@pytest.mark.apart
def test_without_root_it_plays_on_embedded_clusters(apart: tuple[str, ...]) -> None:
    """Jobs cross, one is deleted and one suspended on the way, and both accountings agree."""
    argv = (*apart, "sh", "-c", 'cd "$0" && exec make demo', str(ROOT))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search("^12 jobs, 0 wrong, ", done.stdout, re.MULTILINE)
    assert "beta shows it suspended" in done.stdout


@pytest.mark.apart
def test_where_no_namespace_may_be_made_it_says_so_and_does_nothing(
    apart: tuple[str, ...],
) -> None:
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    inside = ("unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh")
    argv = (*apart, *inside, str(ROOT / "lab/apart"), "true")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"lab/apart: .* no user namespace .*; nothing was done\n", done.stderr)


def test_the_labs_part_without_root_explains_and_ends_with_2(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)

    assert demo.main() == 2
    assert "needs root" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ended", "account", "is_deleted", "wrong"),
    [
        pytest.param({}, "gb.alpha.7.0.1", False, "", id="as it should"),
        pytest.param(
            {"home_status": "137", "away_status": "137"}, "gb.alpha.7.0.1", True, "", id="deleted"
        ),
        pytest.param(
            {"home_status": "4"},
            "gb.alpha.7.0.1",
            False,
            "exit status 4 at home, not 3",
            id="another end at home",
        ),
        pytest.param(
            {"away_status": "4"},
            "gb.alpha.7.0.1",
            False,
            "exit status 4 at beta, not 3",
            id="another end at beta",
        ),
        pytest.param(
            {}, "sge", False, "beta accounts job 9 to sge", id="somebody else's remote job"
        ),
    ],
)
def test_an_end_that_differs_is_wrong(
    demo: ModuleType, ended: dict[str, str], account: str, is_deleted: bool, wrong: str
) -> None:
    job = demo.Job(number="7", exit_status="3", state="", remote_id="9")
    usual = {"home_status": "3", "away_status": "3", "away_host": "beta-n1", "wrong": ""}
    end = demo.End(job=job, **(usual | ended))

    assert demo.fault(end, account, is_deleted=is_deleted) == wrong


def test_a_plot_that_did_not_happen_is_wrong(demo: ModuleType) -> None:
    assert demo.plot_holes([], demo.Plot()) == [
        "0 of 12 jobs crossed: some should, and some not",
        "no two jobs were seen running at beta: none was deleted or suspended",
    ]
