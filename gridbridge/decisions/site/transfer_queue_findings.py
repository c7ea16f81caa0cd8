"""Findings about transfer queues: attributes (queue_conf(5)), sections of gridbridge.toml, and TMPDIR."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace

from gridbridge.decisions.site.service_fault_findings import AWAIT_RELOAD_EDIT
from gridbridge.decisions.site.transfer_queue_prerequisites import (
    mapped_resource_value_findings,
    new_queue_complex_values,
    queue_user_list_findings,
)
from gridbridge.decisions.transfer.transfer_queue_closing import transfer_queue_load_thresholds
from gridbridge.model.fixed_paths import CONFIG, METHODS
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.qconf_attribute_parser import (
    QconfSettings,
    is_besteffort_queue,
    is_transfer_queue,
    is_true_in_qconf,
    parse_qconf_pairs,
    parse_qconf_pairs_by_host,
    parse_qconf_values_by_host,
    parse_qconf_words,
    qconf_queue_value_by_host,
)
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    SetupEdit,
    SetupEditVerb,
    TransferQueuePlan,
    TransferSetupSituation,
    queue_runs_gridbridge_starter,
)
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfer_queue_load_values import PENDING, UP, load_value_complex_attribute

SEQ_NO = 100
SEQ_NO_STEP = 10  # how far a new transfer queue's seq_no is above the highest seq_no of local queues
WHOLE_JOB = "$pe_slots"  # the only allocation_rule that never splits a job between two clusters
PROCEDURES = ("start_proc_args", "stop_proc_args")
LIMITS = ("rt", "cpu", "fsize", "data", "stack", "core", "rss", "vmem")


def transfer_queue_findings(situation: TransferSetupSituation) -> tuple[CheckFinding, ...]:
    """Check each attribute of the transfer queue; a missing queue is one finding."""
    request = situation.wanted
    actual = situation.home.queues.get(request.queue)
    right = transfer_queue_attributes(situation)
    if actual is None:
        return (_missing_transfer_queue_finding(situation, right),)
    return (
        *(_queue_attribute_finding(request, name, actual.get(name, ""), value) for name, value in right.items()),
        _queue_remote_complex_value_finding(request, actual),
        *mapped_resource_value_findings(situation, actual),
        *queue_user_list_findings(situation, actual),
        *_parallel_environment_findings(situation, actual),
    )


def is_existing_non_transfer_queue(situation: TransferSetupSituation) -> bool:
    queue = situation.home.queues.get(situation.wanted.queue)
    return queue is not None and not is_transfer_queue(queue) and not queue_runs_gridbridge_starter(queue)


def queue_slots_and_pending_limit(queue: QconfSettings, remote: str, host: str) -> tuple[int | None, int | None]:
    """Return a queue's slots on a host and its pending limit; None for a value that is not set."""
    slots = parse_qconf_values_by_host(queue.get("slots", "")).value_at_host(host, ())
    limits = parse_qconf_pairs(queue.get("load_thresholds", ""))
    up, pending = (load_value_complex_attribute(remote, value) for value in (UP, PENDING))
    limit = limits.get(pending, "0" if up in limits else "")
    return (int(slots) if slots.isdecimal() and int(slots) else None, int(limit) if limit.isdecimal() else None)


def transfer_queue_attributes(situation: TransferSetupSituation) -> Mapping[str, str]:
    """Return a transfer queue's attributes, except complex_values and pe_list."""
    request = situation.wanted
    methods = {f"{name}_method": f"{METHODS}/{name}" for name in ("starter", "suspend", "resume", "terminate")}
    return {
        "hostlist": request.host,
        "seq_no": _expected_transfer_queue_seq_no(situation),
        "load_thresholds": transfer_queue_load_thresholds(request.remote, request.pending_limit),
        "suspend_thresholds": "NONE",
        "qtype": "BATCH",
        "rerun": "TRUE",
        "slots": str(request.slots),
        "shell_start_mode": "posix_compliant",
        **methods,
        "epilog": f"root@{METHODS}/usage" if request.remote_usage else f"{METHODS}/epilog",
        "notify": "00:01:00",
        **{f"{hardness}_{limit}": "INFINITY" for limit in LIMITS for hardness in "sh"},
    }


def _expected_transfer_queue_seq_no(situation: TransferSetupSituation) -> str:
    numbers = [
        int(number)
        for name, queue in situation.home.queues.items()
        if name != situation.wanted.queue and not is_transfer_queue(queue) and not is_besteffort_queue(queue)
        for number in _parse_queue_sequence_numbers(queue.get("seq_no", "0"))
    ]
    highest = max(numbers, default=0)
    present = situation.home.queues.get(situation.wanted.queue, {}).get("seq_no", "")
    if any(map(int, _parse_queue_sequence_numbers(present))):
        return present
    return str(SEQ_NO if highest < SEQ_NO else highest + SEQ_NO_STEP)


def _parse_queue_sequence_numbers(value: str) -> Iterator[str]:
    """Return the numbers of a seq_no value such as `0,[@big=10]`."""
    parts = (part.rpartition("=")[2].strip("] ") for part in value.split(","))
    return (part for part in parts if part.isdigit())


def _missing_transfer_queue_finding(situation: TransferSetupSituation, right: Mapping[str, str]) -> CheckFinding:
    """Return the finding whose edits make a missing transfer queue.

    The service must read the queue's section before the queue is made, because old load values would open the queue.
    """
    request = situation.wanted
    values = {
        "qname": request.queue,
        **right,
        "pe_list": " ".join(sendable_parallel_environments(situation)) or "NONE",
        "user_lists": request.remote_users_userset if request.people else "NONE",
        "complex_values": ",".join(("remote=TRUE", *new_queue_complex_values(situation))),
    }
    text = "\n".join(f"{name} {value}" for name, value in values.items())
    edit = SetupEdit(verb=SetupEditVerb.ADD_QUEUE, cell=request.home, name=request.queue, value=text)
    closed_by = transfer_queue_load_thresholds(request.remote, request.pending_limit)
    right_words = f"{number_with_noun(request.slots, 'slot')} on {request.host}, closed by {closed_by}"
    return CheckFinding.fault_finding(f"queue {request.queue}", "missing", right_words, AWAIT_RELOAD_EDIT, edit)


def _queue_attribute_finding(request: TransferQueuePlan, name: str, actual: str, right: str) -> CheckFinding:
    wrong = [
        where
        for where, value in qconf_queue_value_by_host(actual)
        if _canonical_attribute_value(value) != _canonical_attribute_value(right)
    ]
    is_right = not wrong or _canonical_attribute_value(actual) == _canonical_attribute_value(right)
    edits = _transfer_queue_edit(request, SetupEditVerb.REPLACE, name, right).edits_for_each_host(wrong)
    return CheckFinding.finding_by_condition(is_right, f"queue {request.queue}: {name}", actual, right, *edits)


def _canonical_attribute_value(value: str) -> str:
    """Return a canonical form of an attribute value; 0:0:60 becomes equal to 00:01:00."""
    words = value.replace(" ", "").lower()
    parts = words.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return words
    hours, minutes, seconds = map(int, parts)
    return str(hours * 3600 + minutes * 60 + seconds)


def _transfer_queue_edit(request: TransferQueuePlan, verb: SetupEditVerb, attribute: str, value: str) -> SetupEdit:
    return SetupEdit.queue_attribute_edit(verb, request.home, request.queue, attribute, value)


def _queue_remote_complex_value_finding(request: TransferQueuePlan, queue: Mapping[str, str]) -> CheckFinding:
    item = f"queue {request.queue}: remote"
    values_by_host = parse_qconf_pairs_by_host(queue.get("complex_values", ""))
    wrong = [(where, values) for where, values in values_by_host if not is_true_in_qconf(values.get("remote", ""))]
    if not wrong:
        return CheckFinding.ok_finding(item, f"remote={values_by_host[0][1]['remote']}")
    where, values = wrong[0]
    actual = f"remote={values['remote']}" if "remote" in values else "no value of remote"
    edit = _transfer_queue_edit(request, SetupEditVerb.MERGE, "complex_values", "remote=TRUE")
    edits = edit.edits_for_each_host(where for where, _ in wrong)
    return CheckFinding.fault_finding(item, f"{actual} on {where[1:]}" if where else actual, "remote=TRUE", *edits)


def sendable_parallel_environments(situation: TransferSetupSituation) -> tuple[str, ...]:
    home = situation.home.environments
    return tuple(name for name in home if not _why_parallel_environment_is_unsuitable(name, situation))


def _why_parallel_environment_is_unsuitable(name: str, situation: TransferSetupSituation) -> str:
    request = situation.wanted
    if reason := request.rejected.get(name, ""):
        return f"the mapping to {request.remote} rejects this environment: {reason}"
    remote_name = request.renamed.get(name, name)
    if remote_name not in situation.away.environments:
        return f"{request.remote} has no environment {remote_name}"
    values = situation.home.environments.get(name, {})
    if values.get("allocation_rule") != WHOLE_JOB:
        rule = values.get("allocation_rule", "unknown")
        return f"allocation_rule {rule} may split a job between home and away"
    rule = situation.away.environments[remote_name].get("allocation_rule", WHOLE_JOB)
    if rule != WHOLE_JOB and name not in request.renamed:
        meant = f'[map.{request.remote}.pe.{name}] to = "{name}" allows this environment'
        return f"allocation_rule {rule} at {request.remote} may spread a job over hosts; {meant}"
    run = [key for key in PROCEDURES if values.get(key, "NONE").upper() != "NONE"]
    return f"{' and '.join(run)} would run on {request.host}" if run else ""


def _parallel_environment_findings(
    situation: TransferSetupSituation, queue: Mapping[str, str]
) -> Iterator[CheckFinding]:
    request = situation.wanted
    listed = {where: parse_qconf_words(value) for where, value in qconf_queue_value_by_host(queue.get("pe_list", ""))}
    for name in dict.fromkeys(name for names in listed.values() for name in names):
        if why := _why_parallel_environment_is_unsuitable(name, situation):
            edit = _transfer_queue_edit(request, SetupEditVerb.DROP, "pe_list", name)
            edits = edit.edits_for_each_host(where for where, names in listed.items() if name in names)
            yield CheckFinding.warning_finding(f"queue {request.queue}: pe {name}", why, "not in pe_list", *edits)
    for name in sendable_parallel_environments(situation):
        wrong = [where for where, names in listed.items() if name not in names]
        actual = ("not in pe_list" if wrong else "in pe_list") + (f" on {wrong[0][1:]}" if any(wrong[:1]) else "")
        edits = _transfer_queue_edit(request, SetupEditVerb.MERGE, "pe_list", name).edits_for_each_host(wrong)
        item = f"queue {request.queue}: pe {name}"
        yield CheckFinding.finding_by_condition(not wrong, item, actual, "in pe_list", *edits, is_warning=True)


MESSAGES_A_SLOT = 4  # a job may have these files in the spool: record, intent, end and closing


def queue_section_finding(policy: Policy, request: TransferQueuePlan) -> CheckFinding:
    """Check the keys that setup writes into a transfer queue's section; setup keeps all other keys."""
    section = policy.queues.get(request.queue)
    before = section or TransferQueueSection(cluster="", pending_limit=-1, slots=0)
    right = replace(
        before,
        cluster=request.remote,
        pending_limit=request.pending_limit,
        slots=request.slots,
        remote_usage=request.remote_usage,
    )
    pairs = ((key.name, getattr(before, key.name), getattr(right, key.name)) for key in fields(right))
    lines = (f"{name} = {json.dumps(new)}" for name, old, new in pairs if old != new)
    edit = SetupEdit(verb=SetupEditVerb.PUT_KEYS, kind="queue", name=request.queue, value="\n".join(lines))
    item = f"file {CONFIG}: [queue.{request.queue}]"
    return CheckFinding.finding_by_condition(
        section == right,
        item,
        _describe_queue_section(section) if section else "missing",
        _describe_queue_section(right),
        edit,
    )


def user_spool_limit_finding(policy: Policy, slots: int) -> CheckFinding:
    """Check that spool_files_per_uid lets one user fill all transfer slots."""
    needed, limit = MESSAGES_A_SLOT * slots, policy.poller.spool_files_per_uid
    actual = f"{limit}" if needed <= limit else f"{limit}, too few for {slots} transfer slots of one user"
    hint = "raise the limit in [poller], or give the queues fewer slots"
    item, right = f"file {CONFIG}: spool_files_per_uid", f"at least {needed}"
    return CheckFinding.finding_by_condition(needed <= limit, item, actual, right, is_warning=True, hint=hint)


def total_transfer_slots(policy: Policy, request: TransferQueuePlan | None = None) -> int:
    slots = {name: queue.slots for name, queue in policy.queues.items()}
    return sum({**slots, **({request.queue: request.slots} if request else {})}.values())


def queue_section_removal_edits(policy: Policy, request: TransferQueuePlan) -> tuple[SetupEdit, ...]:
    edit = SetupEdit(verb=SetupEditVerb.DROP_SECTION, kind="queue", name=request.queue)
    return (edit,) if request.queue in policy.queues else ()


def _describe_queue_section(queue: TransferQueueSection) -> str:
    return f"{number_with_noun(queue.slots, 'slot')}, pending_limit {queue.pending_limit}"


def unconfigured_queue_findings(queues: Mapping[str, QconfSettings], policy: Policy) -> Iterator[CheckFinding]:
    for name, queue in queues.items():
        starts = queue_runs_gridbridge_starter(queue)
        if (starts or is_transfer_queue(queue)) and name not in policy.queues:
            trait, section = "runs gridbridge's starter" if starts else "offers remote=TRUE", f"[queue.{name}]"
            makes = f"gridbridge setup transfer CLUSTER --queue {name} --apply"
            yield CheckFinding.fault_finding(
                f"queue {name}",
                f"{trait} and has no {section}: its jobs wait or fail",
                f"a {section} in {CONFIG}, or no such queue",
                hint=f"{makes} writes the section for the remote cluster CLUSTER; qconf -dq {name} deletes the queue",
            )


TMPDIR = "tmpdir"
SAFE_TMPDIR = "/var/tmp/sge"  # noqa: S108 - root makes it, mode 0755
MAKE_SAFE_TMPDIR = f"install -d -o root -g root -m 0755 {SAFE_TMPDIR}"
MAX_NAMED_QUEUES = 5


def queues_by_tmpdir(queues: Mapping[str, QconfSettings]) -> dict[str, tuple[str, ...]]:
    """Map each tmpdir folder to its queues; `/tmp,[@big=/scratch]` has two folders."""
    queues_by_folder: dict[str, tuple[str, ...]] = {}
    for name, queue in sorted(queues.items()):
        parts = (part.rpartition("=")[2] for part in queue.get(TMPDIR, "").split(","))
        for folder in dict.fromkeys(part.strip("[] ") for part in parts):
            if folder.startswith("/"):
                queues_by_folder[folder] = (*queues_by_folder.get(folder, ()), name)
    return queues_by_folder


def writable_tmpdir_findings(
    cell: str, queues: Mapping[str, QconfSettings], written: Collection[str]
) -> Iterator[CheckFinding]:
    """Check each tmpdir; `written` lists the folders in which users other than root may write."""
    for folder, names in queues_by_tmpdir(queues).items():
        item = f"{TMPDIR} {folder}"
        if folder not in written:
            yield CheckFinding.ok_finding(item, "only root may write")
            continue
        more = f" and {len(names) - MAX_NAMED_QUEUES} more" if len(names) > MAX_NAMED_QUEUES else ""
        yield CheckFinding.weakness_finding(
            item,
            f"all users may write to this tmpdir of {', '.join(names[:MAX_NAMED_QUEUES])}{more}",
            "a folder in which only root can write",
            SetupEdit.shell_command_edit(MAKE_SAFE_TMPDIR),
            *(SetupEdit.queue_attribute_edit(SetupEditVerb.REPLACE, cell, name, TMPDIR, SAFE_TMPDIR) for name in names),
            hint=f"execd follows symlinks in this folder; make {SAFE_TMPDIR} on each host of these queues",
        )
