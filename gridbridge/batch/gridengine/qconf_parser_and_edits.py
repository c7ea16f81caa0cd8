"""Parses qconf(1)'s output, and builds the sh lines by which `gridbridge setup` edits a cell.

Values pass through `quote` or `_escape_for_sed`, tables through a private folder: qconf opens a file twice.
A table that could not be read is never written back, because `qconf -Mc` deletes missing rows.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from shlex import quote

from gridbridge.batch.gridengine.sge_command_line_builders import Argv
from gridbridge.errors import ParseError
from gridbridge.model.qconf_attribute_parser import QconfSettings
from gridbridge.model.site.setup_findings_and_edits import QconfComplexRow, SetupEdit, SetupEditVerb
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

FOLD = re.compile(r"([, ]) *\\\n\s*")  # line folds of old qconf versions, which ignore SGE_SINGLE_LINE
# columns of the table of resources (complex(5))
COLUMNS = ("name", "shortcut", "type", "relation", "requestable", "consumable", "default", "urgency")
EMPTY = ("no ",)  # first word of qconf's answers for an empty list, such as `no operator defined`
FOLDER = "d=$(mktemp -d) && trap 'rm -r \"$d\"' EXIT"
STARTED = re.compile(r"^start time:.*\(([0-9]+)\)", re.MULTILINE)
RAN = re.compile(r"^run time \[s\]:\s*([0-9]+)", re.MULTILINE)
LISTS = {"manager": "m", "operator": "o", "submit": "s", "admin": "h"}


def qconf_command(cell: GridEngineCellAccessSettings, *options: str) -> Argv:
    return (f"{cell.binaries}/qconf", *options)


def parse_object_attributes(data: bytes) -> QconfSettings:
    """Parse the attributes that qconf prints of one object; folded lines are joined."""
    pairs = (line.partition(" ") for line in parse_object_lines(data))
    return {name: value for name, _, value in pairs}


def parse_object_lines(data: bytes) -> tuple[str, ...]:
    """Return an object's lines with single blanks, without comments and empty lines; folded lines are joined."""
    text = FOLD.sub(r"\1", data.decode("utf-8", "replace"))
    lines = (" ".join(line.split()) for line in text.splitlines() if not line.startswith("#"))
    return tuple(filter(None, lines))


def parse_complex_table(data: bytes) -> Mapping[str, QconfComplexRow]:
    """Parse the table of `qconf -sc`; raise ParseError for a wrong number of columns."""
    rows = [line.split() for line in data.decode("utf-8", "replace").splitlines()]
    table = [row for row in rows if row and not row[0].startswith("#")]
    if not table:
        raise ParseError("qconf: the table of resources is empty")
    if wrong := [row for row in table if len(row) != len(COLUMNS)]:
        raise ParseError(f"qconf: {' '.join(wrong[0])[:80]!r} is not a row of the table of resources")
    return {row[0]: QconfComplexRow(**dict(zip(COLUMNS, row, strict=True))) for row in table}


def parse_name_list(data: bytes) -> tuple[str, ...]:
    """Parse a list with one name in each line; `no ... defined` is an empty list."""
    text = data.decode("utf-8", "replace")
    return () if text.startswith(EMPTY) else tuple(text.split())


def parse_qmaster_clock_offset_s(data: bytes, now: float) -> float | None:
    """Return how many seconds the qmaster's clock is ahead, from the output of `qping -info`; None if unknown."""
    text = data.decode("utf-8", "replace")
    started, ran = STARTED.search(text), RAN.search(text)
    return int(started[1]) + int(ran[1]) - now if started and ran else None


def setup_edit_shell_line(edit: SetupEdit) -> str:
    """Return the sh line of one edit of a cell, which runs after the line of `cell_environment_shell_line`."""
    return RENDERERS[edit.verb](edit)


def cell_environment_shell_line(cell: GridEngineCellAccessSettings) -> str:
    """Return the sh line that exports the variables by which qconf finds a cell."""
    words = (
        f"SGE_ROOT={quote(cell.root)}",
        f"SGE_CELL={quote(cell.cell)}",
        f"SGE_QMASTER_PORT={quote(cell.qmaster_port)}",
        f"SGE_EXECD_PORT={quote(cell.execd_port)}",
        "SGE_SINGLE_LINE=1",
        f"PATH={quote(cell.binaries)}:/usr/sbin:/usr/bin:/sbin:/bin",
    )
    return f"export {' '.join(words)}"


def _escape_for_sed(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("&", "\\&")


def _shell_line_replacing_complex(edit: SetupEdit, sed: str = "sed", more: str = "") -> str:
    other_rows = quote(f"/^{edit.name}[[:space:]]/d")
    return f'({FOLDER} && qconf -sc >"$d/now" && {sed} {other_rows} "$d/now"{more} >"$d/new" && qconf -Mc "$d/new")'


def _shell_line_adding_queue(edit: SetupEdit) -> str:
    edits = " ".join(_sed_option_setting_attribute(*line.split(" ", 1)) for line in edit.value.splitlines())
    copied = f" {quote(edit.attribute)}" if edit.attribute else ""
    return f'({FOLDER} && qconf -sq{copied} >"$d/now" && sed {edits} "$d/now" >"$d/new" && qconf -Aq "$d/new")'


def _sed_option_setting_attribute(attribute: str, value: str) -> str:
    return f"-e {quote(f's|^{attribute} .*|{attribute} {_escape_for_sed(value)}|')}"


def _shell_line_changing_attribute(option: str, edit: SetupEdit) -> str:
    return f"qconf {option} {edit.kind} {edit.attribute} {quote(edit.value)} {edit.name}"


def _shell_line_setting_host_value(edit: SetupEdit) -> str:
    file = f'"$d"/{quote(edit.name)}'
    other_settings = f"sed -e '/^#/d' -e '/^$/d' -e '/^{edit.attribute} /d' \"$d/now\""
    setting = quote(f"{edit.attribute} {edit.value}")
    return (
        f'({FOLDER} && if qconf -sconf {edit.name} >"$d/now" 2>/dev/null; then'
        f" {{ {other_settings} && echo {setting}; }} >{file} && qconf -Mconf {file};"
        f" else echo {setting} >{file} && qconf -Aconf {file}; fi)"
    )


def _shell_line_removing_host_value(edit: SetupEdit) -> str:
    file = f'"$d"/{quote(edit.name)}'
    other_settings = f"sed -e '/^#/d' -e '/^$/d' -e '/^{edit.attribute} /d' \"$d/now\""
    return (
        f'({FOLDER} && qconf -sconf {edit.name} >"$d/now" && {other_settings} >{file} &&'
        f" if [ -s {file} ]; then qconf -Mconf {file}; else qconf -dconf {edit.name}; fi)"
    )


def _shell_line_setting_scheduler_value(edit: SetupEdit) -> str:
    return (
        f'({FOLDER} && qconf -ssconf >"$d/now" &&'
        f' sed {_sed_option_setting_attribute(edit.attribute, edit.value)} "$d/now" >"$d/new"'
        ' && qconf -Msconf "$d/new")'
    )


def _shell_line_replacing_quota_rule(edit: SetupEdit, more: str = "") -> str:
    other_rules = f"/^ *limit +{edit.attribute} /{{next}} {{print}} {more}".strip()
    name = quote(edit.name)
    return (
        f'({FOLDER} && qconf -srqs {name} >"$d/now" &&'
        f' awk {quote(other_rules)} "$d/now" >"$d/new" && qconf -Mrqs "$d/new" {name})'
    )


RENDERERS: Mapping[SetupEditVerb, Callable[[SetupEdit], str]] = {
    SetupEditVerb.SET_COMPLEX: lambda edit: _shell_line_replacing_complex(
        edit, "{ sed", f" && echo {quote(edit.value)}; }}"
    ),
    SetupEditVerb.DROP_COMPLEX: _shell_line_replacing_complex,
    SetupEditVerb.ADD_QUEUE: _shell_line_adding_queue,
    SetupEditVerb.DROP_QUEUE: lambda edit: f"qconf -dq {edit.name}",
    SetupEditVerb.REPLACE: partial(_shell_line_changing_attribute, "-rattr"),
    SetupEditVerb.MERGE: partial(_shell_line_changing_attribute, "-mattr"),
    SetupEditVerb.DROP: partial(_shell_line_changing_attribute, "-dattr"),
    SetupEditVerb.PURGE: lambda edit: f"qconf -purge {edit.kind} {edit.attribute} {edit.name}",
    SetupEditVerb.SET_HOST: _shell_line_setting_host_value,
    SetupEditVerb.DROP_HOST: _shell_line_removing_host_value,
    SetupEditVerb.SET_SCHEDULER: _shell_line_setting_scheduler_value,
    SetupEditVerb.ADMIT: lambda edit: f"qconf -a{LISTS[edit.kind]} {edit.name}",
    SetupEditVerb.DISMISS: lambda edit: f"qconf -d{LISTS[edit.kind]} {edit.name}",
    SetupEditVerb.ALLOW: lambda edit: f"qconf -au {quote(edit.value)} {edit.name}",
    SetupEditVerb.DISALLOW: lambda edit: f"qconf -du {quote(edit.value)} {edit.name}",
    SetupEditVerb.DROP_LIST: lambda edit: f"qconf -dul {edit.name}",
    # the exempting rule is inserted first, because only the first matching rule of a resource quota set counts
    SetupEditVerb.EXEMPT: lambda edit: _shell_line_replacing_quota_rule(
        edit, f'/^ *enabled /{{print "   {edit.value}"}}'
    ),
    SetupEditVerb.INCLUDE: _shell_line_replacing_quota_rule,
    SetupEditVerb.SUSPEND: lambda edit: f"qmod -sq {edit.name}",
    SetupEditVerb.ENABLE: lambda edit: f"qmod -e {edit.name}",
    SetupEditVerb.CLEAR: lambda edit: f"qmod -cq {edit.name}",
}
