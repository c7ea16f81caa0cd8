"""Findings about the best-effort queues of a cell, with the edits that correct faults.

Block i of b slots is suspended as a whole once the host's local queue uses (i - 1) * b + 1 slots. Used slots of several
local queues are not added up: on a host with several local queues, one job in any of these queues suspends all blocks.
The last edits give the queues their slots, so that no task starts in an incomplete set-up.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from gridbridge.decisions.site.transfer_queue_prerequisites import grid_engine_complex_finding
from gridbridge.model.fixed_paths import BEST_EFFORT, METHODS
from gridbridge.model.qconf_attribute_parser import (
    QconfSettings,
    is_besteffort_queue,
    is_transfer_queue,
    parse_qconf_pairs,
    parse_qconf_values_by_host,
    parse_qconf_words,
    qconf_queue_value_by_host,
)
from gridbridge.model.site.setup_findings_and_edits import (
    BestEffortCellFacts,
    CheckFinding,
    QconfComplexRow,
    SetupEdit,
    SetupEditVerb,
)

MOST = 8  # default number of best-effort queues; each queue costs scheduler time
NAME = re.compile(r"gb-be([1-9][0-9]*)")
PREEMPT = f"{METHODS}/preempt"
HOSTLIST = "hostlist"


def non_gridbridge_queue_names(cell: BestEffortCellFacts) -> tuple[str, ...]:
    return tuple(
        name
        for name, queue in cell.queues.items()
        if not is_transfer_queue(queue) and not is_gridbridge_besteffort_queue(cell, name)
    )


def is_gridbridge_besteffort_queue(cell: BestEffortCellFacts, name: str) -> bool:
    """Say whether gridbridge made a best-effort queue, even if the queue lost its complex gb_besteffort.

    A queue without the complex accepts any user's jobs and kills them, so setup must repair or remove the queue, and
    never take the queue for a local queue.
    """
    queue = cell.queues.get(name, {})
    does = queue.get("suspend_method", "").startswith(PREEMPT)
    return bool(NAME.fullmatch(name)) and (does or is_besteffort_queue(queue))


def foreign_queues_named_besteffort(cell: BestEffortCellFacts) -> tuple[str, ...]:
    return tuple(
        name for name in cell.queues if NAME.fullmatch(name) and not is_gridbridge_besteffort_queue(cell, name)
    )


def gridbridge_besteffort_queues(cell: BestEffortCellFacts) -> tuple[str, ...]:
    """Return the existing best-effort queues of a cell, sorted by number."""
    names = (name for name in cell.queues if is_gridbridge_besteffort_queue(cell, name))
    return tuple(sorted(names, key=lambda name: int(name.removeprefix("gb-be"))))


def choose_besteffort_model_queue(cell: BestEffortCellFacts, like: str | None) -> str:
    """Return the local queue whose hosts and access lists best-effort queues copy; empty if none.

    If `like` is given, only this queue is a candidate. Otherwise queues with the hosts of the present best-effort
    queues are preferred, then queues with more slots.
    """
    local = non_gridbridge_queue_names(cell)
    if like:
        return like if like in local else ""
    hosts = [parse_qconf_words(cell.queues[name].get(HOSTLIST, "")) for name in gridbridge_besteffort_queues(cell)[:1]]
    same = [name for name in local if [parse_qconf_words(cell.queues[name].get(HOSTLIST, ""))] == hosts]
    by_size = sorted(same or local, key=lambda name: (-sum(cell.slots.get(name, {}).values()), name))
    return next(iter(by_size), "")


class BestEffortQueueLayout:
    """A cell's best-effort queues: slots on each host, and how many used local slots suspend each queue."""

    def __init__(self, cell: BestEffortCellFacts, model: str, most: int | None) -> None:
        self.slots = cell.slots.get(model, {})
        self._shared = _queues_sharing_hosts(cell, frozenset(self.slots))
        largest = max(self.slots.values(), default=0)
        numbers = [int(name.removeprefix("gb-be")) for name in gridbridge_besteffort_queues(cell)]
        present = max(cell.slots.get("gb-be1", {}).values(), default=0)
        is_kept = present and not most and largest <= present * max(MOST, *numbers, 0)
        self.size = present if is_kept else max(1, -(-largest // (most or MOST)))
        self.count = max(-(-largest // self.size), *numbers, 0)

    def queue_names(self) -> tuple[str, ...]:
        return tuple(f"gb-be{number}" for number in range(1, self.count + 1))

    def slots_by_host_of_queue(self, number: int) -> dict[str, int]:
        before = (number - 1) * self.size
        return {host: min(self.size, max(0, n - before)) for host, n in self.slots.items()}

    def suspension_slots_by_queue(self, queue: str) -> dict[str, int]:
        exact = range(1, self.count * self.size + 1, self.size)
        used = (1 for _ in exact) if queue in self._shared else exact
        return dict(zip(self.queue_names(), used, strict=True))


def _queues_sharing_hosts(cell: BestEffortCellFacts, hosts: frozenset[str]) -> frozenset[str]:
    local = non_gridbridge_queue_names(cell)
    on = Counter(host for name in local for host in cell.slots.get(name, {}))
    return frozenset(name for name in local if any(on[host] > 1 for host in hosts & cell.slots.get(name, {}).keys()))


def format_queue_slots_by_host(slots: Mapping[str, int]) -> str:
    """Return slots in queue_conf(5) format: the most common number, then each host with another number."""
    usual = max(Counter(slots.values()).items(), key=lambda pair: (pair[1], -pair[0]), default=(0, 0))
    of_hosts = (f"[{host}={n}]" for host, n in sorted(slots.items()) if n != usual[0])
    return ",".join((str(usual[0]), *of_hosts))


def subordinate_lists_by_host(queue: QconfSettings) -> tuple[tuple[str, str], ...]:
    """Return a queue's subordinate_lists, each with its suffix: '', `@HOST` or `@@GROUP`."""
    return qconf_queue_value_by_host(queue.get("subordinate_list", "NONE").replace(" ", ""))


SEQ_NO = 900  # lowest seq_no; the queue with this seq_no is filled first and preempted last
NICE = "19"
METHOD = f"{PREEMPT} || kill -s 55 $job_pid"  # `kill` is for hosts without gridbridge, where a task gets no grace time
RULE_NAME = "name gb-besteffort"  # name line of a resource quota set (sge_resource_quota(5))
RULE = f"limit {RULE_NAME} queues gb-be* to slots=9999999"
ACCESS = ("user_lists", "xuser_lists", "projects", "xprojects")
WHOLE_JOB = "$pe_slots"  # jobs on several hosts can't be preempted as a whole
RESOURCE = QconfComplexRow(name=BEST_EFFORT, shortcut=BEST_EFFORT, type="BOOL", relation="==", requestable="FORCED")


def besteffort_queue_findings(
    cluster: str, cell: BestEffortCellFacts, model: str, most: int | None
) -> tuple[CheckFinding, ...]:
    """Return all findings about best-effort queues, in the order of their edits."""
    blocks = BestEffortQueueLayout(cell, model, most)
    numbers = range(1, blocks.count + 1)
    return (
        _besteffort_complex_finding(cluster, cell),
        *(_besteffort_quota_exemption_finding(cluster, name, text) for name, text in cell.quotas.items()),
        *(finding for n in numbers for finding in _single_besteffort_queue_findings(cluster, cell, model, blocks, n)),
        *(
            finding
            for name in non_gridbridge_queue_names(cell)
            if blocks.slots.keys() & cell.slots.get(name, {}).keys()  # jobs of this queue preempt tasks
            for finding in _subordinate_list_findings(cluster, cell, blocks, name)
        ),
        *(_besteffort_queue_slots_finding(cluster, cell, blocks, n) for n in numbers),
        *besteffort_consumable_findings(cluster, cell, blocks),
    )


def foreign_besteffort_name_finding(cluster: str, name: str) -> CheckFinding:
    actual = f"neither {BEST_EFFORT}=TRUE nor gridbridge's suspend_method"
    hint = f"remove {name} from each subordinate_list, then qconf -dq {name}; or rename it"
    return CheckFinding.warning_finding(f"{cluster}: queue {name}", actual, "no ordinary queue of this name", hint=hint)


def _besteffort_complex_finding(cluster: str, cell: BestEffortCellFacts) -> CheckFinding:
    row, key = cell.complexes.get(BEST_EFFORT), attrgetter("type", "relation", "requestable", "consumable")
    return grid_engine_complex_finding(cluster, row, RESOURCE, row is not None and key(row) == key(RESOURCE))


def _besteffort_quota_exemption_finding(cluster: str, name: str, text: str) -> CheckFinding:
    item = f"resource quota {name}"
    rules = [line.split() for line in text.splitlines() if line.split()[:1] == ["limit"]]
    if rules and " ".join(rules[0][1:3]) == RULE_NAME:
        return CheckFinding.ok_finding(item, " ".join(rules[0]))
    edit = SetupEdit(verb=SetupEditVerb.EXEMPT, cell=cluster, name=name, attribute=RULE_NAME, value=RULE)
    return CheckFinding.fault_finding(item, "counts best-effort tasks as well", f"first {RULE}", edit)


def _single_besteffort_queue_findings(
    cluster: str, cell: BestEffortCellFacts, model: str, blocks: BestEffortQueueLayout, number: int
) -> Iterator[CheckFinding]:
    """Check a best-effort queue's attributes except its slots; an edit makes a missing queue with 0 slots."""
    name = f"gb-be{number}"
    item, settings, right = f"queue {name}", cell.queues.get(name), _expected_besteffort_queue_attributes(cell, model)
    if settings is None:
        seq_no = str(SEQ_NO + blocks.count - number)
        values = {"qname": name, "seq_no": seq_no, "priority": NICE, "slots": "0", **right}
        text = "\n".join(f"{key} {value}" for key, value in values.items())
        edit = SetupEdit(verb=SetupEditVerb.ADD_QUEUE, cell=cluster, name=name, attribute=model, value=text)
        yield CheckFinding.fault_finding(item, "missing", f"a queue like {model}, for preemptible tasks", edit)
        return
    for key, value in right.items():
        yield from _besteffort_queue_attribute_findings(cluster, name, key, settings.get(key, ""), value)


def _expected_besteffort_queue_attributes(cell: BestEffortCellFacts, model: str) -> dict[str, str]:
    queue = cell.queues[model]
    remote = ("remote=FALSE",) if "remote" in cell.complexes else ()
    return {
        HOSTLIST: queue.get(HOSTLIST, "NONE"),
        "qtype": "BATCH",
        "rerun": "FALSE",
        "suspend_method": METHOD,
        "resume_method": "NONE",
        "suspend_thresholds": "NONE",
        "subordinate_list": "NONE",
        "complex_values": ",".join((f"{BEST_EFFORT}=TRUE", *remote)),
        "pe_list": ",".join(_whole_job_parallel_environments(cell, model)),
        **{name: queue.get(name, "NONE") for name in ACCESS},
    }


def _whole_job_parallel_environments(cell: BestEffortCellFacts, model: str) -> Iterator[str]:
    rules = {name: settings.get("allocation_rule") for name, settings in cell.environments.items()}
    values = parse_qconf_values_by_host(cell.queues[model].get("pe_list", "NONE"))
    for where, listed in (("", values.usual), *values.others):
        whole = " ".join(name for name in parse_qconf_words(listed) if rules.get(name) == WHOLE_JOB) or "NONE"
        yield f"[{where}={whole}]" if where else whole


def _besteffort_queue_attribute_findings(
    cluster: str, queue: str, name: str, actual_text: str, right: str
) -> Iterator[CheckFinding]:
    actual_values, right_values = dict(qconf_queue_value_by_host(actual_text)), dict(qconf_queue_value_by_host(right))
    is_list, usual = name == "complex_values", right_values[""]  # default value of the attribute after the edit
    for where in dict.fromkeys((*actual_values, *right_values)):
        actual, value = actual_values.get(where, usual), right_values.get(where, usual)
        verb = SetupEditVerb.MERGE if is_list else SetupEditVerb.REPLACE
        edit = SetupEdit.queue_attribute_edit(verb, cluster, f"{queue}{where}", name, value)
        if where not in right_values and not is_list:
            edit = replace(edit, verb=SetupEditVerb.PURGE, value="")
        yield CheckFinding.finding_by_condition(
            _is_same_attribute_value(name, actual, value), f"queue {queue}{where}: {name}", actual, value, edit
        )


def _is_same_attribute_value(name: str, actual: str, right: str) -> bool:
    """Compare two attribute values; case and the order of a list don't matter."""
    if name == "complex_values":
        as_said = {key: value.upper() for key, value in parse_qconf_pairs(right).items()}
        return as_said.items() <= {key: value.upper() for key, value in parse_qconf_pairs(actual).items()}.items()
    if name in (HOSTLIST, "pe_list", *ACCESS):
        return sorted(parse_qconf_words(actual)) == sorted(parse_qconf_words(right))
    return actual.upper() == right.upper()


def _subordinate_list_findings(
    cluster: str, cell: BestEffortCellFacts, blocks: BestEffortQueueLayout, queue: str
) -> Iterator[CheckFinding]:
    right = blocks.suspension_slots_by_queue(queue)
    for suffix, actual in subordinate_lists_by_host(cell.queues[queue]):
        name = f"{queue}{suffix}"
        item, listed = f"queue {name}: subordinate_list", parse_qconf_pairs(actual)
        lacking = ",".join(f"{key}={n}" for key, n in right.items() if listed.get(key) != str(n))
        if actual.startswith("slots="):
            wrong = f"{actual}: a slot-wise list, which counts best-effort tasks and allows no other queues"
            hint = "change the subordinate_list by hand, or give another --like"
            yield CheckFinding.fault_finding(item, wrong, "queue-wise, such as low.q=1", hint=hint)
        else:
            edit = SetupEdit.queue_attribute_edit(SetupEditVerb.MERGE, cluster, name, "subordinate_list", lacking)
            yield CheckFinding.finding_by_condition(not lacking, item, actual, lacking, edit)


def _besteffort_queue_slots_finding(
    cluster: str, cell: BestEffortCellFacts, blocks: BestEffortQueueLayout, number: int
) -> CheckFinding:
    name, right = f"gb-be{number}", blocks.slots_by_host_of_queue(number)
    actual = {host: n for host, n in cell.slots.get(name, {}).items() if host in right}
    shown, wanted = format_queue_slots_by_host(actual), format_queue_slots_by_host(right)
    edit = SetupEdit.queue_attribute_edit(SetupEditVerb.REPLACE, cluster, name, "slots", wanted)
    return CheckFinding.finding_by_condition(actual == right, f"queue {name}: slots", shown, wanted, edit)


def besteffort_consumable_findings(
    cluster: str, cell: BestEffortCellFacts, blocks: BestEffortQueueLayout
) -> Iterator[CheckFinding]:
    """Warn of consumables that best-effort tasks may use up: local jobs that request these preempt no task."""
    for name, hosts in cell.taken.items():
        touched = [host for host in hosts if host in blocks.slots or host == "global"]
        if touched:
            hosts_text = ", ".join(touched[:3]) + (f" and {len(touched) - 3} more" if touched[3:] else "")
            actual = f"best-effort tasks use {name} at {hosts_text}, and no queue exempts the tasks"
            right = "no consumable that every job uses"
            yield CheckFinding.warning_finding(
                f"{cluster}: consumable {name}", actual, right, hint=_besteffort_consumable_advice(name, cell)
            )


def _besteffort_consumable_advice(name: str, cell: BestEffortCellFacts) -> str:
    if name == "slots":
        return (
            "move the limit from the hosts' complex_values to a resource quota that exempts best-effort tasks,"
            " such as `limit hosts {*} to slots=$num_proc`"
        )
    if cell.complexes[name].relation == "EXCL":
        return f"if a job requests {name}, gridbridge-nikita ends all best-effort tasks of a host"
    return f"remove the default of {name}, so that only jobs that request {name} use {name}"


GONE_S = 60  # longest wait for preempted tasks: 10 s until a task ends, and 50 s for Grid Engine's accounting


def besteffort_removal_edits(cluster: str, cell: BestEffortCellFacts) -> Iterator[SetupEdit]:
    queues = gridbridge_besteffort_queues(cell)
    for name in queues:
        yield SetupEdit(verb=SetupEditVerb.SUSPEND, cell=cluster, name=name)
    if queues:
        listed = f"qstat -s rs -u '*' -q {','.join(queues)} | grep -q ."
        wait = f"timeout {GONE_S} sh -c {shlex.quote(f'while {listed}; do sleep 1; done')}"
        name = f"wait up to {GONE_S} s for the end of the tasks"
        yield SetupEdit(verb=SetupEditVerb.SHELL, cell=cluster, name=name, value=wait)
    yield from _subordinate_list_removal_edits(cluster, cell, queues)
    for name in queues:
        yield SetupEdit(verb=SetupEditVerb.DROP_QUEUE, cell=cluster, name=name)
    for name, text in cell.quotas.items():
        if RULE_NAME in " ".join(text.split()):
            yield SetupEdit(verb=SetupEditVerb.INCLUDE, cell=cluster, name=name, attribute=RULE_NAME)
    other_queues = (queue for name, queue in cell.queues.items() if name not in queues)
    if BEST_EFFORT in cell.complexes and not any(map(is_besteffort_queue, other_queues)):
        yield SetupEdit(verb=SetupEditVerb.DROP_COMPLEX, cell=cluster, name=BEST_EFFORT)


def _subordinate_list_removal_edits(
    cluster: str, cell: BestEffortCellFacts, queues: tuple[str, ...]
) -> Iterator[SetupEdit]:
    for queue, settings in cell.queues.items():
        for suffix, subordinates in subordinate_lists_by_host(settings):
            listed = [f"{name}={n}" for name, n in parse_qconf_pairs(subordinates).items() if name in queues]
            if listed:
                name = f"{queue}{suffix}"
                yield SetupEdit.queue_attribute_edit(
                    SetupEditVerb.DROP, cluster, name, "subordinate_list", ",".join(listed)
                )
