"""The report of gridbridge check: two lines for a good site, and faults by subject, the worst first."""

import pytest

from gridbridge.decisions.site.check_report_lines import WHY, check_report_lines, quiet_check_report_lines
from gridbridge.model.site.check_report import CheckReport, CheckReportItem
from gridbridge.model.site.setup_findings_and_edits import CheckSubject, FindingSeverity

OK, NOTE, WARNING, BROKEN = FindingSeverity
HOST, SERVICE, CLUSTERS = CheckSubject.HOST, CheckSubject.SERVICE, CheckSubject.CLUSTERS


def item(
    name: str,
    subject: CheckSubject,
    state: FindingSeverity,
    *commands: str,
    right: str = "",
    hint: str = "",
    where: str = "",
    is_unanswered: bool = False,
) -> CheckReportItem:
    return CheckReportItem(
        name=name,
        subject=subject,
        state=state,
        found="seen",
        right=right,
        commands=commands,
        where=where,
        hint=hint,
        is_unanswered=is_unanswered,
    )


def report(*items: CheckReportItem) -> CheckReport:
    severities = {each.state for each in items}
    worst = next((severity for severity in (BROKEN, WARNING) if severity in severities), OK)
    return CheckReport(items=items, worst=worst)


GOOD = (item("a", HOST, OK), item("b", HOST, OK), item("c", CLUSTERS, OK), item("tmpdir", HOST, NOTE))
FAULTS = report(
    *GOOD,
    item("slow", HOST, WARNING, right="fast", hint="why"),
    item("poller", SERVICE, WARNING, "one", "two", where="h2", hint="because"),
    item("log", SERVICE, BROKEN, "three", hint="because"),
)


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        (GOOD[:3], ["ok: 3 of 3 items are right", "checked: this host 2, clusters 1"]),
        (
            GOOD,
            ["ok: 4 of 4 items are right", "checked: this host 3, clusters 1; 1 note in `gridbridge check --all`"],
        ),
    ],
)
def test_a_good_site_is_two_lines(items: tuple[CheckReportItem, ...], lines: list[str]) -> None:
    assert [*check_report_lines(report(*items), is_all=False)] == lines
    assert [*quiet_check_report_lines(report(*items))] == []


def test_faults_are_grouped_by_subject_the_worst_first_with_reason_and_command() -> None:
    """A hint that follows itself is printed once; commands of an item are one line."""
    assert [*check_report_lines(FAULTS, is_all=False)] == [
        "broken: 4 of 7 items are right",
        "",
        f"service: {WHY[SERVICE]}",
        "broken   log: seen",
        "         # because",
        "         three",
        "warning  poller: seen",
        "         one && two  # on h2",
        "",
        f"this host: {WHY[HOST]}",
        "warning  slow: seen; expected fast",
        "         # why",
    ]
    assert [*quiet_check_report_lines(FAULTS)] == [
        "broken: service: log: seen",
        "warning: this host: slow: seen",
        "warning: service: poller: seen",
    ]


def test_all_shows_right_items_after_the_faults_of_their_subject() -> None:
    lines = [*check_report_lines(FAULTS, is_all=True)]

    assert [line.split()[:2] for line in lines if line.startswith(("ok ", "note ", "warning "))] == [
        ["warning", "poller:"],
        *(["warning", "slow:"], ["note", "tmpdir:"], ["ok", "a:"], ["ok", "b:"], ["ok", "c:"]),
    ]


@pytest.mark.parametrize(
    ("items", "status"),
    [
        ((), 0),
        (GOOD, 0),
        ((item("a", HOST, WARNING),), 1),
        ((item("a", CLUSTERS, BROKEN, is_unanswered=True), item("b", HOST, WARNING)), 75),
        ((item("a", CLUSTERS, BROKEN, is_unanswered=True), item("b", HOST, BROKEN)), 2),
        ((item("b", HOST, BROKEN),), 2),
    ],
)
def test_the_exit_status_tells_broken_parts_from_silent_clusters(
    items: tuple[CheckReportItem, ...], status: int
) -> None:
    assert report(*items).exit_status == status


def test_every_subject_has_its_reason() -> None:
    assert WHY.keys() == {*CheckSubject}
