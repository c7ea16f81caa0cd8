"""Builds Grid Engine's client commands, with paths: Debian's /usr/bin/qsub is a shell wrapper."""

import time

from gridbridge.errors import ParseError
from gridbridge.model import job_request
from gridbridge.model.fixed_paths import BEST_EFFORT, ENDED
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

Argv = tuple[str, ...]

EVERY_STATE = ("-s", "a")  # shows all states, even if an sge_qstat file selects fewer (qstat(1))
ENDS = ("JB_END", "JB_TASK_END")  # qevent(1)'s events for ended jobs and tasks
LAST = -1023  # lowest priority (qsub(1), -p)
LONG_PAST_S = 86400  # qalter can't remove a start time, so this time in 1970 replaces a start time in the far future
ANY_PE = "*"  # any parallel environment (sge_types(1), wc_pe_name)
# context variable of jobs that requested remote=false and are now restricted to one queue
STAYS = f"{job_request.OURS}stays"
OF_STRINGS = (
    "=",
    "<>",
    job_request.LIKE,
    job_request.NOT_LIKE,
    job_request.NOT_NULL,
)  # comparisons that a requested expression may contain (complex(5))
WILD = frozenset("*?[]!&|()")  # operators and wildcards of expressions (complex(5))
STAY = (("remote", "false"),)  # request that keeps a job in local queues
UNVERIFIED = ("-clear", "-@")  # qsub options that may cancel -verify


def defer_restart_argv(cell: GridEngineCellAccessSettings, job: str, own: int) -> Argv:
    """Build the command that defers a restart to a far start time, and saves the old time in the context."""
    note = ("-ac", f"{job_request.OWN_START}={own}", "-ac", f"{job_request.OWN_JOB}={job}")
    return (f"{cell.binaries}/qalter", "-a", _format_time_for_qalter(job_request.FAR_S), *note, job)


def restore_start_time_argv(cell: GridEngineCellAccessSettings, job: str, own: int) -> Argv:
    """Build the command that restores start time `own` of a job; with `own` 0 the job may start at once."""
    start = _format_time_for_qalter(own or LONG_PAST_S)
    return (f"{cell.binaries}/qalter", "-a", start, "-dc", f"{job_request.OWN_START},{job_request.OWN_JOB}", job)


def _format_time_for_qalter(seconds: int) -> str:
    return time.strftime("%Y%m%d%H%M.%S", time.gmtime(seconds))


def pin_to_queue_argv(
    cell: GridEngineCellAccessSettings, job: str, queue: str, remember: str, hard: job_request.Pairs | None = None
) -> Argv:
    """Build the command that restricts a job to one queue and saves its queue list in its context.

    Blanks separate saved names, as a comma ends a context variable. `hard` replaces a request of remote=false.
    """
    note = f"{job_request.OWN_QUEUES}={remember.replace(',', ' ')}"
    stay = (*_hard_resource_options(hard), "-ac", f"{STAYS}=1") if hard is not None else ()
    return (f"{cell.binaries}/qalter", "-q", queue, "-ac", note, *stay, job)


def restore_queue_list_argv(
    cell: GridEngineCellAccessSettings, job: str, queues: str, hard: job_request.Pairs | None = None
) -> Argv:
    """Build the command that restores a job's saved queue list; `*` stands for all queues."""
    stay = (*_hard_resource_options(hard), "-dc", STAYS) if hard is not None else ()
    own = queues.replace(" ", ",")
    return (f"{cell.binaries}/qalter", "-q", own, "-dc", job_request.OWN_QUEUES, *stay, job)


def _hard_resource_options(pairs: job_request.Pairs) -> Argv:
    return qsub_resource_options("-hard", pairs) or ("-hard", "-l", "")


def show_job_detail_argv(cell: GridEngineCellAccessSettings, job: str) -> Argv:
    """Build the command that shows all details of a job; `job` may also be a job name."""
    return (f"{cell.binaries}/qstat", "-j", job, "-xml")


def list_jobs_argv(cell: GridEngineCellAccessSettings, *options: str) -> Argv:
    """Build the qstat command that lists the jobs of a user, by default the caller, in all states.

    All waiting tasks of an array are one entry; each running task has its own entry.
    """
    return (f"{cell.binaries}/qstat", *EVERY_STATE, *options)


def host_queue_instances_argv(cell: GridEngineCellAccessSettings, hosts: list[str]) -> Argv:
    shown = ("-s", "rs", "-F", BEST_EFFORT, "-u", "*", "-xml", "-f")
    return (f"{cell.binaries}/qstat", *shown, "-q", ",".join(f"*@{host}" for host in hosts))


def show_cell_status_argv(cell: GridEngineCellAccessSettings) -> Argv:
    """Build the command that lists all jobs and queue instances, and shows which instances are best-effort.

    qstat reports no error if the cell lacks a resource in the command (measured: 8.1.9).
    """
    return list_jobs_argv(cell, "-F", f"remote,{BEST_EFFORT}", "-u", "*", "-xml")


def end_watcher_argv(cell: GridEngineCellAccessSettings) -> Argv:
    """Build the command of qevent, which runs sge-methods/ended at the end of each job and task."""
    triggers = (word for event in ENDS for word in ("-trigger", event, ENDED))
    return (f"{cell.binaries}/qevent", *triggers)


ROTATED = r'-mtime -2 \( -name "accounting.[01]" -o -name "accounting-[0-9]*" \) ! -name "*.*z*"'
CURRENT = "current=accounting; [ -e $current ] || [ ! -e $current.jsonl ] || current=$current.jsonl"
ACCOUNTED = (
    'cd "$0" || exit 2; '
    f"older=$(find . -maxdepth 1 {ROTATED} -exec ls -tr {{}} +); "
    f"{CURRENT}; "
    'exec /bin/grep -ahF -B1 -A1 "$@" $older $current'
)
ALL_ACCOUNTED = """\
cd "$0" || exit 2
since=$1; shift
kept=$(find . -maxdepth 1 -type f -newermt "@$since" -name "accounting[.-]*" \\
    ! -name accounting.jsonl -exec ls -tr {} +)
CURRENT
for file in $kept $current; do
    case $file in *.gz) gzip -dc "$file" ;; *.xz) xz -dc "$file" ;; *) cat "$file" ;; esac
done | /bin/grep -ahF -B1 -A1 "$@"
found=$?
[ -r $current ] || exit 2
exit $found
""".replace("CURRENT", CURRENT)


def search_accounting_argv(cell: GridEngineCellAccessSettings, accounts: list[str]) -> Argv:
    """Build the command that finds accounting lines by account string, with adjacent lines.

    Files that were rotated recently and are not compressed are searched too. qacct(1) would read whole files.
    """
    return ("/bin/sh", "-c", ACCOUNTED, f"{cell.root}/{cell.cell}/common", *_grep_options_for_accounts(accounts))


def search_rotated_accounting_argv(cell: GridEngineCellAccessSettings, accounts: list[str], since_s: int) -> Argv:
    """Build the command that also searches accounting files rotated since an epoch time."""
    folder = f"{cell.root}/{cell.cell}/common"
    return ("/bin/sh", "-c", ALL_ACCOUNTED, folder, str(since_s), *_grep_options_for_accounts(accounts))


def _grep_options_for_accounts(accounts: list[str]) -> Argv:
    texts = (text for account in accounts for text in (f":{account}:", f'"account":"{account}"'))
    return tuple(word for text in texts for word in ("-e", text))


def submit_held_job_argv(cell: GridEngineCellAccessSettings, spec: job_request.JobSpec) -> Argv:
    """Build the command that submits a held job under its transfer's name (script on stdin).

    Without `-clear` and `-C ''` qsub would apply default requests and script directives a second time.
    """
    request = spec.request
    options: Argv = ("-terse", "-h", "-N", spec.transfer, "-A", spec.transfer, "-S", spec.shell)
    options += ("-m", "n", "-r", "n", "-j", "y", "-o", "/dev/null")
    options += _option_unless_empty("-t", f"1-{spec.tasks}" if spec.tasks else "")
    options += _option_unless_empty("-wd", spec.cwd)
    options += ("-pe", spec.pe or ANY_PE, str(spec.slots)) if spec.pe or spec.slots > 1 else ()
    options += ("-notify",) if request.notify else ()
    is_yielding = job_request.YIELDS in request.types
    options += _option_unless_empty("-q", "" if is_yielding else request.targets)
    options += qsub_resource_options("-hard", ((BEST_EFFORT, "true"),)) if is_yielding else ()
    options += _option_unless_empty("-P", request.project) + _option_unless_empty("-ckpt", request.checkpoint)
    priority = LAST if is_yielding else min(request.priority, 0)
    options += _option_unless_empty("-p", str(priority or ""))
    options += _option_unless_empty("-js", str(request.share or ""))
    for name, value in request.context:
        options += ("-ac", f"{name}={value}") if not name.startswith(job_request.OURS) else ()
    stays = request.stays and not is_yielding  # best-effort jobs are never transferred
    options += replacement_resource_options(_joined_hard_requests(request), request.soft, stays)
    return (f"{cell.binaries}/qsub", "-clear", "-C", "", *options)


def _joined_hard_requests(request: job_request.JobRequest) -> job_request.Pairs:
    """Return the hard requests, with all conditions on a resource joined into one (complex(5)).

    qsub uses only the last request of a resource; the qmaster takes name and shortcut as two requests.
    """
    names: dict[str, str] = {}
    expressions: dict[str, dict[str, None]] = {}
    for clause in (*((pair,) for pair in request.hard), *request.either):
        text = "|".join(
            _complex_expression(job_request.split_property_and_sql_relation(name)[1], value) for name, value in clause
        )
        name = job_request.split_property_and_sql_relation(clause[0][0])[0]
        names.setdefault(job_request.resource_long_name(name), name)
        expressions.setdefault(job_request.resource_long_name(name), {})[text] = None
    return tuple(
        (names[resource], "&".join(map(_put_in_parentheses, texts)) if len(texts) > 1 else next(iter(texts)))
        for resource, texts in expressions.items()
    )


def _put_in_parentheses(text: str) -> str:
    return f"({text})" if "|" in text or "&" in text else text


def _complex_expression(relation: str, value: str) -> str:
    if relation == job_request.NOT_NULL:
        return "*"
    text = value.replace("%", "*").replace("_", "?") if relation in (job_request.LIKE, job_request.NOT_LIKE) else value
    return f"!{_put_in_parentheses(text)}" if relation in ("<>", job_request.NOT_LIKE) else text


def explain_request_refusal(request: job_request.JobRequest) -> str:
    conditions = [pair for clause in (request.hard, *request.either) for pair in clause]
    if odd := [job_request.format_sql_condition_for_people(*pair) for pair in conditions if not _is_expressible(*pair)]:
        return f"Grid Engine accepts only requests NAME=VALUE, not {', '.join(odd)}"
    if unequal := _contradicting_hard_requests(request.hard):
        return f"Grid Engine accepts only one value of a resource, not {' and '.join(unequal)}"
    bare = [[job_request.split_property_and_sql_relation(name)[0] for name, _ in clause] for clause in request.either]
    pairs = zip(request.either, bare, strict=True)
    several = [clause for clause, names in pairs if len({*names}) > 1]
    text = " or ".join(job_request.format_sql_condition_for_people(*pair) for clause in several[:1] for pair in clause)
    return f"Grid Engine accepts no choice between resources, such as {text}" if text else ""


def _contradicting_hard_requests(hard: job_request.Pairs) -> list[str]:
    """Return the conditions that contradict each other, because a resource has only one value (complex(5))."""
    conditions: dict[str, dict[str, str]] = {}
    for name, value in hard:
        if job_request.split_property_and_sql_relation(name)[1] == "=" and WILD.isdisjoint(value):
            conditions.setdefault(job_request.resource_long_name(name), {})[value] = (
                job_request.format_sql_condition_for_people(name, value)
            )
    return next(([*texts.values()] for texts in conditions.values() if len(texts) > 1), [])


def _is_expressible(name: str, value: str) -> bool:
    _, relation = job_request.split_property_and_sql_relation(name)
    if relation in (job_request.LIKE, job_request.NOT_LIKE) and not WILD.isdisjoint(value):
        return False
    return relation == job_request.NOT_NULL or (relation in OF_STRINGS and value != "")


def replace_preemptible_by_lowest_priority(spec: job_request.JobSpec) -> job_request.JobSpec:
    """Turn a preemptible job into a job of the lowest priority, for cells without best-effort queues."""
    return spec.with_changes(request=spec.request.with_changes(types=(), priority=LAST))


def preview_submission_argv(cell: GridEngineCellAccessSettings, words: Argv) -> Argv:
    """Build the command `qsub -verify`, which prints a job without submitting the job.

    Raises ParseError for `-clear`, which would cancel `-verify` (qsub(1)), and for `-@`, whose file may contain it.
    Script directives and default files can't cancel `-verify`: they precede the command line's options.
    """
    for word in words:
        if word.startswith(UNVERIFIED):
            raise ParseError(f"{word}: not allowed with -verify; expected options without {word}")
    return (f"{cell.binaries}/qsub", "-verify", *words)


def replacement_resource_options(hard: job_request.Pairs, soft: job_request.Pairs, stays: bool = False) -> Argv:
    """Return the options that replace the resources of a remote job; home hosts and queues are left out."""
    remote_hard, remote_soft = (
        tuple(pair for pair in pairs if not job_request.is_home_only_resource(pair[0])) for pairs in (hard, soft)
    )
    stay = qsub_resource_options("-hard", STAY if stays else ())
    return qsub_resource_options("-hard", remote_hard) + stay + qsub_resource_options("-soft", remote_soft)


def _option_unless_empty(option: str, value: str) -> Argv:
    return (option, value) if value else ()


def qsub_resource_options(strictness: str, pairs: job_request.Pairs) -> Argv:
    """Return options such as `-hard -l a=1`; of a name and its shortcut only the last request counts."""
    last = {job_request.resource_long_name(name): (name, value) for name, value in pairs}
    texts = [f"{name}={value}" if value else name for name, value in last.values()]
    return tuple(word for text in texts for word in (strictness, "-l", text))
