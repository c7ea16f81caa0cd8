"""Whether anybody serves campaigns: gridbridge-runner's last cycle, and what waits for the next."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from gridbridge.model.site.setup_findings import CheckFinding, FindingState
from gridbridge.model.status_report import count

LATE = timedelta(minutes=5)  # cron starts a cycle each minute; a slow one takes a minute or two
HINT = (
    "start gridbridge-runner as the service account:"
    " /opt/gridbridge/conf/systemd/gridbridge-runner.service, or cron as in"
    " /opt/gridbridge/conf/cron.d/gridbridge-campaigns; if it runs, its log says what keeps it"
)


def findings(
    going_on: int, brought: int, last: datetime | None, at: datetime
) -> Iterator[CheckFinding]:
    """Judge the last cycle, where campaigns go on or were brought and nobody took them yet."""
    if not (going_on or brought):
        return
    late = "never" if last is None else f"{int((at - last) / timedelta(minutes=1))} min ago"
    is_late = last is None or at - last > LATE
    news = f" and {count(brought, 'file')} that nobody has taken yet" if brought else ""
    yield CheckFinding(
        item="campaigns",
        state=FindingState.WARNING if is_late else FindingState.OK,
        found=f"{going_on} that go on{news}, last cycle of gridbridge-runner: {late}",
        right="a cycle each minute" if is_late else "",
        hint=HINT if is_late else "",
    )
