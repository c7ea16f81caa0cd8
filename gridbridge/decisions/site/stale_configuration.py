"""What the check says while a running service has another gridbridge.toml than the one there."""

from collections.abc import Iterator

from gridbridge.model.places import PYTHON
from gridbridge.model.site.host_facts import PollerFacts
from gridbridge.model.site.setup_findings import CheckFinding, EditVerb, FindingState, SetupEdit

ITEM = "poller: gridbridge.toml"
OLDER = "the service has an older gridbridge.toml"
AWAIT = SetupEdit(verb=EditVerb.SHELL, value=f"{PYTHON} -I -m gridbridge.site.configuration_wait")
NEW = "the new one"


def is_refused(poller: PollerFacts) -> bool:
    """Say whether a running service refuses the file that is there, though it is right."""
    configuration = poller.configuration
    return configuration is not None and not configuration.is_same and bool(configuration.refused)


def is_awaited(poller: PollerFacts) -> bool:
    """Say whether a living service has yet to take the file that is there, or to refuse it."""
    configuration = poller.configuration
    return configuration is not None and not configuration.is_same and not configuration.refused


def trouble(poller: PollerFacts) -> str:
    """Say why a living service does not have the file that is there; empty where it has it."""
    wrong = (finding for finding in findings(poller) if finding.state != FindingState.OK)
    return next((f"{finding.found}; {finding.hint}" for finding in wrong), "")


def findings(poller: PollerFacts, is_right: bool = True) -> Iterator[CheckFinding]:
    """Report a running service that uses another gridbridge.toml than the one that is there.

    The mistakes of a wrong file are findings of their own.
    """
    configuration = poller.configuration
    if configuration is None:
        return
    if configuration.is_same:
        yield CheckFinding(item=ITEM, state=FindingState.OK, found="in force")
    elif not is_right:
        hint = "it stays in force until the file is right"
        yield CheckFinding(item=ITEM, state=FindingState.WARNING, found=OLDER, right=NEW, hint=hint)
    elif configuration.refused:
        hint = "until that is mended the older one stays in force"
        actual = f"{OLDER}; it refuses the new one: {'; '.join(configuration.refused)}"
        yield CheckFinding(item=ITEM, state=FindingState.BROKEN, found=actual, right=NEW, hint=hint)
    else:
        yield _late(poller.pid)


def _late(pid: int) -> CheckFinding:
    """Return the finding that makes the service read the file now."""
    edit = SetupEdit(verb=EditVerb.SHELL, value=f"kill -HUP {pid}")
    return CheckFinding(
        item=ITEM,
        state=FindingState.WARNING,
        found=OLDER,
        right=NEW,
        mend=(edit,) if pid else (),
        hint="it takes the new one within seconds, or by: systemctl reload gridbridge-poller",
    )
