"""How the service runs gridbridge-as-user: by sudo, or as its one person."""

import pytest

from gridbridge.batch import root_helpers
from gridbridge.model.cluster import Cluster, ClusterKind
from gridbridge.model.policy import Policy
from gridbridge.model.site.site_section import SiteSection
from gridbridge.shell.runner import CompletedProgram


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (ClusterKind.GRIDENGINE, root_helpers.SUDO_AS_USER),
        (ClusterKind.EMBEDDED, root_helpers.ALONE),
    ],
    ids=["others", "alone"],
)
def test_only_a_site_of_several_people_needs_sudo(
    monkeypatch: pytest.MonkeyPatch, kind: ClusterKind, first: tuple[str, ...]
) -> None:
    asked: list[tuple[str, ...]] = []

    def run(argv: tuple[str, ...], *_: object) -> CompletedProgram:
        asked.append(argv)
        return CompletedProgram(argv, 0, b"", b"")

    monkeypatch.setattr(root_helpers, "run_program", run)
    monkeypatch.setattr(root_helpers, "_is_personal", False)
    site = SiteSection(cluster="alpha")
    root_helpers.choose_sudo_or_personal_call(
        Policy(site=site, clusters={"alpha": Cluster(kind=kind)}, queues={})
    )
    root_helpers.run_gridbridge_as_user("list-arrays", "c.1")

    assert asked == [(*first, "list-arrays", "c.1")]


def test_half_a_line_of_roots_ledger_is_noted_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Root has removed it, and goes on."""
    said = b"ledger-cut c.12 14\nno job\n"
    monkeypatch.setattr(
        root_helpers, "run_program", lambda argv, *_: CompletedProgram(argv, 0, b"", said)
    )
    root_helpers.run_gridbridge_as_user("list-arrays", "c.12")

    assert [one.getMessage() for one in caplog.records] == [
        "event=ledger_cut ledger='c.12' bytes=14"
    ]
