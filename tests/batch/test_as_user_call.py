"""Tests of calls of gridbridge-as-user, by sudo or directly."""

from unittest.mock import Mock

import pytest

from gridbridge.batch import privileged_helper_calls
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterKind, ClusterSection, Policy
from gridbridge.shell.program_runs import CompletedProgram


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (ClusterKind.GRIDENGINE, privileged_helper_calls.SUDO_AS_USER),
        (ClusterKind.EMBEDDED, privileged_helper_calls.ALONE),
    ],
    ids=["others", "alone"],
)
def test_only_a_site_with_several_users_needs_sudo(
    monkeypatch: pytest.MonkeyPatch, kind: ClusterKind, first: tuple[str, ...]
) -> None:
    run = Mock(return_value=CompletedProgram((), 0, b"", b""))
    monkeypatch.setattr(privileged_helper_calls, "run_program", run)
    monkeypatch.setattr(privileged_helper_calls, "_is_personal", False)
    site = SiteSection(cluster="alpha")
    privileged_helper_calls.choose_sudo_or_direct_user_call(
        Policy(site=site, clusters={"alpha": ClusterSection(kind=kind)}, queues={})
    )
    privileged_helper_calls.run_gridbridge_as_user("list-arrays", "c.1")

    assert [request.args[0] for request in run.mock_calls] == [(*first, "list-arrays", "c.1")]


def test_a_truncated_ledger_line_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    said = b"ledger-cut c.12 14\nno job\n"
    monkeypatch.setattr(privileged_helper_calls, "run_program", lambda argv, *_: CompletedProgram(argv, 0, b"", said))
    privileged_helper_calls.run_gridbridge_as_user("list-arrays", "c.12")

    assert [one.getMessage() for one in caplog.records] == ["event=ledger_cut ledger='c.12' bytes=14"]
