"""The demo notices what went wrong, and without root it only says what it needs."""

import importlib.util
import os
from types import ModuleType

import pytest

from tests.docs.console import ROOT


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "lab" / "demo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_root_it_explains_and_ends_with_2(
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
