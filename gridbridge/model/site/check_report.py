"""The report of `gridbridge check`: items by subject, and the exit status for monitoring."""

from dataclasses import dataclass

from gridbridge.model.site.setup_findings_and_edits import CheckSubject, FindingSeverity

OK, WARNINGS, BROKEN, UNANSWERED = 0, 1, 2, 75  # exit statuses of `gridbridge check`


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReportItem:
    name: str
    state: FindingSeverity
    found: str
    right: str
    commands: tuple[str, ...]
    where: str
    hint: str
    subject: CheckSubject = CheckSubject.HOST
    is_unanswered: bool = False  # whether the fault is a cluster without an answer, so that a retry may find no fault


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    items: tuple[CheckReportItem, ...]
    worst: FindingSeverity

    @property
    def exit_status(self) -> int:
        """0, 1 or 2 by the worst item; 75 if nothing is broken but clusters that gave no answer."""
        broken = [item for item in self.items if item.state is FindingSeverity.BROKEN]
        if broken and all(item.is_unanswered for item in broken):
            return UNANSWERED
        return {FindingSeverity.BROKEN: BROKEN, FindingSeverity.WARNING: WARNINGS}.get(self.worst, OK)

    @property
    def right_count(self) -> int:
        return sum(not is_fault(item) for item in self.items)


def is_fault(item: CheckReportItem) -> bool:
    """Say whether an item counts as wrong; a note does not."""
    return item.state in (FindingSeverity.BROKEN, FindingSeverity.WARNING)
