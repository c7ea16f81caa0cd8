"""What the page on campaigns shows as a site's rules are rules, and do what it says."""

import os
import re
from dataclasses import replace
from pathlib import Path

from gridbridge.config import admission
from gridbridge.decisions.campaigns.admission import admit
from gridbridge.model.campaigns.admission import Candidate
from gridbridge.model.campaigns.jdl import AtCluster, Jdl
from gridbridge.model.places import ADMISSION
from tests.docs.console import ROOT

PAGE = (ROOT / "docs/campaigns.md").read_text()
WISH = AtCluster(exec_file="run", is_besteffort=False)
BROUGHT = Candidate(
    user="alice", groups=frozenset(), tasks=9, jdl=Jdl(name="n", clusters={"beta": WISH})
)


def test_the_rules_of_the_page_are_loaded_and_applied(tmp_path: Path) -> None:
    """One changes, one refuses, and physics may do what it likes."""
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "10-site.py").write_text(text)
    rules = admission.load(str(tmp_path), os.getuid())
    slow = replace(BROUGHT.jdl, clusters={"beta": replace(WISH, walltime_s=90000)})

    assert admit(rules, BROUGHT).jdl.clusters["beta"].is_besteffort
    assert admit(rules, replace(BROUGHT, groups=frozenset({"physics"}))).fired == ()
    assert admit(rules, replace(BROUGHT, jdl=slow)).refusal.endswith(
        "a task may take a day at most"
    )
    assert f"`{ADMISSION}`" in PAGE
