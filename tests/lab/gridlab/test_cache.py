"""The cache of base systems outlives each lab that mounts them; needs no lab."""

import importlib
from pathlib import Path

import pytest

LAB = Path(__file__).parents[3] / "lab"


def test_the_cache_stays_while_another_lab_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAB))
    grid, paths, errors = (importlib.import_module(f"gridlab.{name}") for name in ("grid", "paths", "errors"))
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "RUN", tmp_path / "run" / paths.NAMES[""])
    keeper = tmp_path / "run" / paths.NAMES["2"] / paths.KEEPER.name
    for folder in (paths.CACHE, keeper.parent):
        folder.mkdir(parents=True)
    keeper.touch()

    with pytest.raises(errors.LabError, match="gridbridge-lab-2 use it; expected no running lab"):
        grid.purge()

    keeper.unlink()
    grid.purge()
    assert not paths.CACHE.exists()
