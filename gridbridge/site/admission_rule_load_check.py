"""Checks, in a process of its own, whether the site's admission rules can be loaded.

The rules may print, exit or hang. Usage: python3 -I -m gridbridge.site.admission_rule_load_check FOLDER OWNER
"""

import os
import sys
from collections.abc import Iterator

from gridbridge.campaigns.submission import site_admission_rules
from gridbridge.errors import CommandFailed, ConfigError
from gridbridge.model.fixed_paths import ADMISSION
from gridbridge.model.site.setup_findings_and_edits import CheckFinding
from gridbridge.shell import safe_files
from gridbridge.shell.program_runs import run_program
from gridbridge.shell.program_startup import setpriv_command_prefix

LOAD_S = 20.0
MODULE = ("-I", "-m", "gridbridge.site.admission_rule_load_check")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def check_admission_rules_load(
    account: str, folder: str = ADMISSION, owner: int = safe_files.ROOT
) -> Iterator[CheckFinding]:
    """Check that the service account can load the admission rules; no rules give no finding."""
    if not os.path.lexists(folder):
        return
    item = f"admission rules {folder}"
    try:
        argv = (*setpriv_command_prefix(account), sys.executable, *MODULE, folder, str(owner))
        run_program(argv, ENVIRONMENT, LOAD_S).require_success()
    except CommandFailed as error:
        words = f"not loaded after {LOAD_S:.0f} s" if error.status is None else error.failure_in_words
        hint = "correct the rule's file, or move the file out of the folder; until then every campaign is refused"
        yield CheckFinding.fault_finding(item, words, "rules that can be loaded", hint=hint)
        return
    yield CheckFinding.ok_finding(item, "loaded")


def main() -> None:
    """Load the site's admission rules; the last line of standard error explains a failure."""
    folder, owner = sys.argv[1:]
    try:
        site_admission_rules.load_site_admission_rules(folder, int(owner))
    except ConfigError as error:
        raise SystemExit(" ".join(str(error).split())) from error


if __name__ == "__main__":
    main()
