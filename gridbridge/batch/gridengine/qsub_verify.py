"""Converts the output of `qsub -verify` into the form of `qstat -j -xml`.

qsub reads the site's and the person's defaults, the options and the script's own directives, and
prints the job in its own format. submitted_request parses the other form.
"""

import re
from collections.abc import Iterable
from html import escape

from gridbridge.batch.gridengine.submitted_request import PRIORITY_ZERO
from gridbridge.errors import ParseError

FIELD = re.compile(r"^([a-z_]+(?: [a-z_]+)?): +(.*)$", re.MULTILINE)
SCRIPT = re.compile(rb"^script_size: +(\d+)\n.*?^script_ptr: *\n", re.MULTILINE | re.DOTALL)
RANGE = re.compile(r"(.*) range: (.*)")
SIGNS = ("+", "-", "=", "")  # context operations: add, delete, set
LEAVES = {  # field of qsub -verify: element of qstat -j -xml
    "cwd": "JB_cwd",
    "project": "JB_project",
    "checkpoint_object": "JB_checkpoint_name",
}


def convert_qsub_verify_to_xml(output: bytes, owner: str) -> bytes:
    """Return the job that qsub printed, as XML; ParseError if the output has no job."""
    text = _without_script(output).decode("utf-8", "replace")
    fields = dict(reversed(FIELD.findall(text)))  # the first line of a field counts
    if "job_number" not in fields:
        raise ParseError("qsub -verify: it tells of no job")
    elements = (
        _element("JB_job_number", "0"),
        _element("JB_owner", owner),
        _element("JB_account", fields.get("account", "")),
        _element("JB_notify", fields.get("notify", "").lower()),
        _element("JB_priority", str(PRIORITY_ZERO + int(fields.get("priority", 0)))),
        *(_element(tag, fields.get(word, "")) for word, tag in LEAVES.items()),
        _resources("JB_hard_resource_list", fields.get("hard resource_list", "")),
        _resources("JB_soft_resource_list", fields.get("soft resource_list", "")),
        _list("JB_hard_queue_list", "QR_name", fields.get("hard_queue_list", "")),
        _parallel(fields.get("parallel environment", "")),
        _context(fields.get("context", "")),
    )
    return "".join(elements).encode()


def _without_script(text: bytes) -> bytes:
    """Remove the job script's text from the output, because it may look like fields."""
    if not (match := SCRIPT.search(text)):
        return text
    return text[: match.start()] + text[match.end() + int(match[1]) :]


def _resources(tag: str, text: str) -> str:
    pairs = (word.partition("=") for word in text.split(",") if word)
    return _outer(tag, (_element("CE_name", name) + _element("CE_stringval", value) for name, _, value in pairs))


def _list(tag: str, inner: str, text: str) -> str:
    return _outer(tag, (_element(inner, name) for name in text.split(",") if name))


def _parallel(text: str) -> str:
    """Parse `smp range: 2-4,8`; a range without a minimum begins with 1."""
    if not (match := RANGE.match(text)):
        return ""
    ranges = [part.partition(":")[0] for part in match[2].split(",")]
    ends = (
        _element("RN_min", bounds.partition("-")[0] or "1") + _element("RN_max", bounds.rpartition("-")[2])
        for bounds in ranges
    )
    return _element("JB_pe", match[1]) + _outer("JB_pe_range", ends)


def _context(text: str) -> str:
    """Parse `+=NONE,name=value`; the first sign shows whether -ac, -dc or -sc was given last."""
    pairs = (word.partition("=") for word in text.split(",") if word)
    variables = (
        f"<VA_variable>{escape(name)}</VA_variable><VA_value>{escape(value)}</VA_value>"
        for name, _, value in pairs
        if name not in SIGNS
    )
    return _outer("JB_context", variables)


def _outer(tag: str, elements: Iterable[str]) -> str:
    return f"<{tag}>{''.join(elements)}</{tag}>"


def _element(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text.strip())}</{tag}>" if text else ""
