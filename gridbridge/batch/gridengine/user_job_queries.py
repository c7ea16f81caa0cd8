"""Queries and changes users' own jobs in a cell, for the commands that users run."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

from gridbridge.batch.gridengine import job_request_parser, sge_command_line_builders
from gridbridge.batch.gridengine.job_submission_and_control import UNKNOWN_JOB, query_job_xml, run_client
from gridbridge.batch.gridengine.job_submission_and_control import alter_job as alter_job
from gridbridge.batch.gridengine.qstat_xml_parser import parse_cluster_snapshot, parse_job_accounts_and_errors
from gridbridge.batch.gridengine.sge_command_line_builders import Argv
from gridbridge.batch.gridengine.status import query_qconf_object_settings
from gridbridge.errors import ParseError
from gridbridge.model.cluster_snapshot import ListedJobStatus
from gridbridge.model.jobs_and_accounting import JobRequestAndSubmitOptions, QueueJobAndUserRestrictions
from gridbridge.model.published_status_and_reports import replace_control_characters
from gridbridge.model.qconf_attribute_parser import QconfValuesByHost, parse_qconf_values_by_host, parse_qconf_words
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

build_resource_options = sge_command_line_builders.replacement_resource_options
GROUP = "@"  # first character of host group names


def query_submitted_job(cell: GridEngineCellAccessSettings, job: int, task: int = 0) -> JobRequestAndSubmitOptions:
    """Return a job's request and options; raise ParseError if the job or the task does not exist."""
    xml = query_job_xml(cell, str(job))
    if task and not job_request_parser.has_array_task(xml, task):
        raise ParseError("qstat -j: the job or task does not exist, or qstat did not answer")
    return _parse_request_and_options(xml)


def query_job_states_and_wait_reasons(cell: GridEngineCellAccessSettings, job: int) -> ListedJobStatus | None:
    """Return a job's states and reasons for waiting; None if the job does not exist.

    Without schedd_job_info (sched_conf(5)) only the job's owner and operators get reasons (`qalter -w p`).
    """
    answer = run_client(cell, sge_command_line_builders.show_job_detail_argv(cell, str(job)))
    if UNKNOWN_JOB in answer.stdout:  # some versions of qstat also exit with status 1
        return None
    detail = parse_job_accounts_and_errors(answer.require_success().stdout)[0]
    argv = sge_command_line_builders.list_jobs_argv(cell, "-u", detail.owner, "-xml")
    listed = run_client(cell, argv, zone="UTC").require_success().stdout
    taken_at = datetime.now(UTC)
    snapshot = parse_cluster_snapshot(listed, cluster="", taken_at=taken_at, job_ids=(job,), zone=UTC)
    rows = snapshot.jobs.get(job, ())
    hindrances = detail.messages
    if not hindrances and any(row.state.can_start for row in rows):
        hindrances = _query_waiting_reasons(cell, str(job))
    return ListedJobStatus(job_id=job, owner=detail.owner, rows=rows, errors=detail.errors, hindrances=hindrances)


def _query_waiting_reasons(cell: GridEngineCellAccessSettings, job: str) -> tuple[str, ...]:
    """Return why a job that is not held waits (`qalter -w p` would alter a held job); empty without permission."""
    answer = run_client(cell, (f"{cell.binaries}/qalter", "-w", "p", job))
    lines = answer.stdout.decode("utf-8", "replace").splitlines()
    heads = (f"Job {job} ", "verification: ")
    reasons = (line for line in lines if not line.startswith(heads[1]))
    return () if answer.status else tuple(line.removeprefix(heads[0]) for line in reasons)


def query_queue_restrictions(cell: GridEngineCellAccessSettings, queue: str) -> QueueJobAndUserRestrictions:
    """Return the users and jobs that a queue accepts; settings that differ between hosts are left out."""
    settings = query_qconf_object_settings(cell, "-sq", queue)
    hosts = parse_qconf_words(settings.get("hostlist", ""))
    values = {name: _value_on_single_host(hosts, parse_qconf_values_by_host(text)) for name, text in settings.items()}
    plain = {name: value for name, value in values.items() if value is not None}
    lists = parse_qconf_words(plain.get("user_lists", ""))
    shown = [query_qconf_object_settings(cell, "-su", name) for name in lists]
    slots = plain.get("slots", "")
    return QueueJobAndUserRestrictions(
        slots=int(slots) if slots.isdigit() else None,
        environments=parse_qconf_words(plain["pe_list"]) if "pe_list" in plain else None,
        people=tuple(person for user_list in shown for person in parse_qconf_words(user_list.get("entries", "")))
        or None,
    )


def _value_on_single_host(hosts: tuple[str, ...], value: QconfValuesByHost) -> str | None:
    if not value.others:
        return value.usual
    names = [where.lower() for where, _ in value.others]
    if len(hosts) != 1 or hosts[0].startswith(GROUP):
        return None
    is_by_group = any(name.startswith(GROUP) for name in names)
    return None if is_by_group and hosts[0].lower() not in names else value.value_at_host(hosts[0], ())


def preview_submitted_job(cell: GridEngineCellAccessSettings, argv: Argv, person: str) -> JobRequestAndSubmitOptions:
    answer = run_client(cell, sge_command_line_builders.preview_submission_argv(cell, argv))
    if answer.status:
        lines = (answer.stderr + answer.stdout).decode("utf-8", "replace").splitlines()
        why = next(iter(lines), f"qsub printed no reason and ended with exit status {answer.status}")
        raise ParseError(f"neither a job id nor a valid command line of qsub: {replace_control_characters(why)}")
    return _parse_request_and_options(convert_qsub_verify_to_xml(answer.stdout, person))


def build_alter_command(cell: GridEngineCellAccessSettings, job: str, options: Argv) -> Argv:
    return (f"{cell.binaries}/qalter", *options, job)


def _parse_request_and_options(xml: bytes) -> JobRequestAndSubmitOptions:
    pe, slots = job_request_parser.parse_parallel_request(xml)
    return JobRequestAndSubmitOptions(
        request=job_request_parser.parse_job_request(xml),
        account=job_request_parser.parse_owner_and_account(xml)[1],
        pe=pe,
        slots=slots,
        fewest=job_request_parser.parse_minimum_slots(xml),
        cwd=job_request_parser.parse_job_cwd(xml),
        is_interactive=job_request_parser.is_interactive_job(xml),
    )


FIELD = re.compile(r"^([a-z_]+(?: [a-z_]+)?): +(.*)$", re.MULTILINE)
SCRIPT = re.compile(rb"^script_size: +(\d+)\n.*?^script_ptr: *\n", re.MULTILINE | re.DOTALL)
RANGE = re.compile(r"(.*) range: (.*)")
SIGNS = ("+", "-", "=", "")  # signs of the options -ac, -dc, -sc
LEAVES = {  # {field of `qsub -verify`: element of `qstat -j -xml`}
    "cwd": "JB_cwd",
    "project": "JB_project",
    "checkpoint_object": "JB_checkpoint_name",
}


def convert_qsub_verify_to_xml(output: bytes, owner: str) -> bytes:
    """Convert output of `qsub -verify` into XML as of `qstat -j`; raise ParseError if it has no job."""
    if match := SCRIPT.search(output):  # lines of the job script may look like fields
        output = output[: match.start()] + output[match.end() + int(match[1]) :]
    text = output.decode("utf-8", "replace")
    fields = dict(reversed(FIELD.findall(text)))  # reversed, because the first of equal fields counts
    if "job_number" not in fields:
        raise ParseError("qsub -verify: the output has no job")
    queues = fields.get("hard_queue_list", "")
    elements = (
        _xml_leaf_unless_empty("JB_job_number", "0"),
        _xml_leaf_unless_empty("JB_owner", owner),
        _xml_leaf_unless_empty("JB_account", fields.get("account", "")),
        _xml_leaf_unless_empty("JB_notify", fields.get("notify", "").lower()),
        _xml_leaf_unless_empty("JB_priority", str(job_request_parser.PRIORITY_ZERO + int(fields.get("priority", 0)))),
        *(_xml_leaf_unless_empty(tag, fields.get(word, "")) for word, tag in LEAVES.items()),
        _resource_list_element("JB_hard_resource_list", fields.get("hard resource_list", "")),
        _resource_list_element("JB_soft_resource_list", fields.get("soft resource_list", "")),
        _xml_element(
            "JB_hard_queue_list", (_xml_leaf_unless_empty("QR_name", name) for name in queues.split(",") if name)
        ),
        _parallel_request_elements(fields.get("parallel environment", "")),
        _context_element(fields.get("context", "")),
    )
    return "".join(elements).encode()


def _resource_list_element(tag: str, text: str) -> str:
    pairs = (word.partition("=") for word in text.split(",") if word)
    return _xml_element(
        tag,
        (
            _xml_leaf_unless_empty("CE_name", name) + _xml_leaf_unless_empty("CE_stringval", value)
            for name, _, value in pairs
        ),
    )


def _parallel_request_elements(text: str) -> str:
    """Parse a text such as `smp range: 2-4,8`; a range without a minimum begins with 1."""
    if not (match := RANGE.match(text)):
        return ""
    ranges = [part.partition(":")[0] for part in match[2].split(",")]
    ends = (
        _xml_leaf_unless_empty("RN_min", bounds.partition("-")[0] or "1")
        + _xml_leaf_unless_empty("RN_max", bounds.rpartition("-")[2])
        for bounds in ranges
    )
    return _xml_leaf_unless_empty("JB_pe", match[1]) + _xml_element("JB_pe_range", ends)


def _context_element(text: str) -> str:
    """Parse a text such as `+=NONE,name=value`; the signs of -ac, -dc and -sc are skipped."""
    pairs = (word.partition("=") for word in text.split(",") if word)
    variables = (
        f"<VA_variable>{escape(name)}</VA_variable><VA_value>{escape(value)}</VA_value>"
        for name, _, value in pairs
        if name not in SIGNS
    )
    return _xml_element("JB_context", variables)


def _xml_element(tag: str, elements: Iterable[str]) -> str:
    return f"<{tag}>{''.join(elements)}</{tag}>"


def _xml_leaf_unless_empty(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text.strip())}</{tag}>" if text else ""
