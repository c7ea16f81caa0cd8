"""Rounds of the balancer, saved in folders with recorded answers of Grid Engine 8.1.9."""

import json
import shutil
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "gridengine-8.1.9"
NOW = "2126-01-01T12:00:00+00:00"


def save_round(folder: Path, qstat: str = "cell.xml", **state: object) -> Path:
    """Save a round with the recorded output of qstat and these values of its state; return the folder."""
    shutil.copy(GOLDEN / qstat, folder / "qstat.xml")
    shutil.copy(GOLDEN / "hosts.xml", folder / "qhost.xml")
    (folder / "state.json").write_text(json.dumps({"now": NOW, "master": "alpha-master"} | state))
    return folder
