"""Formats the report of `gridbridge check`: by subject, the worst first, each fault with its reason and its command."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType

from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.check_report import CheckReport, CheckReportItem, is_fault
from gridbridge.model.site.setup_findings_and_edits import CheckSubject, FindingSeverity

STATE_COLUMN = 9  # width of the column of states
WORST_FIRST = (FindingSeverity.BROKEN, FindingSeverity.WARNING, FindingSeverity.NOTE, FindingSeverity.OK)
WHY: Mapping[CheckSubject, str] = MappingProxyType(
    {
        CheckSubject.CONFIGURATION: "programs refuse a gridbridge.toml with a mistake as a whole",
        CheckSubject.HOST: "the service and users' jobs need these programs, accounts, folders and rights",
        CheckSubject.SERVICE: "without a running service the transfer queues close and no end of a remote job arrives",
        CheckSubject.CLUSTERS: "no job and no task is sent to a cluster that gives no answer or refuses logins",
        CheckSubject.QUEUES: "jobs wait or run at the wrong place unless queues are as `gridbridge setup` makes them",
        CheckSubject.CAMPAIGNS: "tasks of campaigns wait without these services and programs",
        CheckSubject.ELASTIC: "no node is added or removed without a working balancer",
        CheckSubject.REBALANCE: "no task and no replica is moved or copied without rounds and storage areas",
    }
)


def check_report_lines(report: CheckReport, is_all: bool) -> Iterator[str]:
    """Yield two lines for a report without faults, or a verdict and a paragraph for each subject with a fault."""
    yield f"{report.worst.value}: {report.right_count} of {len(report.items)} items are right"
    if not is_all and not any(map(is_fault, report.items)):
        yield _summary_of_subjects(report)
        return
    shown = [item for item in report.items if is_all or is_fault(item)]
    for subject, items in groupby(sorted(shown, key=_group_order(shown)), key=lambda item: item.subject):
        yield from ("", f"{subject}: {WHY[subject]}")
        yield from _item_lines(items)


def quiet_check_report_lines(report: CheckReport) -> Iterator[str]:
    """Yield a line for each fault, the worst first; nothing if there is no fault."""
    faults = filter(is_fault, report.items)
    for item in sorted(faults, key=lambda item: WORST_FIRST.index(item.state)):
        yield f"{item.state}: {item.subject}: {item.name}: {item.found}"


def _summary_of_subjects(report: CheckReport) -> str:
    counts = Counter(item.subject for item in report.items)
    subjects = ", ".join(f"{subject} {counts[subject]}" for subject in CheckSubject if counts[subject])
    notes = sum(item.state is FindingSeverity.NOTE for item in report.items)
    more = f"; {number_with_noun(notes, 'note')} in `gridbridge check --all`" if notes else ""
    return f"checked: {subjects}{more}"


def _group_order(shown: Iterable[CheckReportItem]) -> Callable[[CheckReportItem], tuple[int, int, int]]:
    worst: dict[CheckSubject, int] = {}
    for item in shown:
        worst[item.subject] = min(WORST_FIRST.index(item.state), worst.get(item.subject, len(WORST_FIRST)))
    subjects = [*CheckSubject]
    return lambda item: (worst[item.subject], subjects.index(item.subject), WORST_FIRST.index(item.state))


def _item_lines(items: Iterable[CheckReportItem]) -> Iterator[str]:
    indent, hint = " " * STATE_COLUMN, ""
    for item in items:
        right = f"; expected {item.right}" if item.right else ""
        yield f"{item.state:<{STATE_COLUMN}}{item.name}: {item.found}{right}"
        if item.hint and item.hint != hint:  # several items may share a hint
            yield f"{indent}# {item.hint}"
        if item.commands:
            where = f"  # on {item.where}" if item.where else ""
            yield f"{indent}{' && '.join(item.commands)}{where}"
        hint = item.hint
