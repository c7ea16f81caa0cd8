"""Builds the command lines of OAR's programs (oarsub(1), oardel(1), oarstat(1), ...).

Without a database, OAR's programs retry for ever. They can't be killed, because they are setuid, so an alarm(2) ends
each program.
"""

from gridbridge.model.job_request import (
    VALUELESS,
    WORDS,
    JobRequest,
    JobSpec,
    is_home_only_resource,
    split_property_and_sql_relation,
)
from gridbridge.model.transfer_route import OarServerAccessSettings
from gridbridge.shell.program_runs import quote_for_sh

Argv = tuple[str, ...]

HERE = __file__.rpartition("/")[0]
FAR, KEEPER, USED = f"{HERE}/far.sh", f"{HERE}/keeper.pl", f"{HERE}/used.pl"
LIMITED = ("/usr/bin/perl", "-e", "alarm shift; exec {$ARGV[0]} @ARGV or exit 127")
ANSWER_S = 1  # the alarm comes this long before the server's time limit, so that the timeout can be reported
BREAK, WHOLE = b"\n- - -\n", b"\n. . .\n"  # line between two outputs, and line after the last output
COMMAND = 'exec /usr/bin/perl "$HOME/.gridbridge/job.$OAR_JOB_ID"'  # sh and csh can run this command
ARRAY = '"$HOME/.gridbridge/array.$OAR_ARRAY_ID"'
UNSTARTED = 57  # a task without script ends by this signal, because an exit status would look like the script's
TASK_COMMAND = f"test -r {ARRAY} || kill -{UNSTARTED} $$; exec /usr/bin/perl {ARRAY}"  # for sh and csh
WALLTIME = "h_rt"  # resource of Grid Engine that becomes OAR's walltime
NO_LIMIT = ("INFINITY", "NONE")  # values that mean no time limit, in upper or lower case
NODES = "nodes"  # oarsub's name of level network_address
LEVEL = "/"  # first character of a level in oarsub's option -l
ENDED = "--notify=exec:.gridbridge/ended"  # far.sh replaces this path by a program of the job
SUSPEND, RESUME = "TSTP", "CONT"  # names of signals that keeper.pl handles
SIGNAL_NUMBERS = {SUSPEND: "20", RESUME: "18"}  # numbers in Linux (signal(7))
END_OF_KEEPER = b"__END__\n"
OVER = "('Terminated', 'Error')"  # states of ended jobs, as an SQL list
LIVE_COPY = f"resubmit_job_id <> 0 AND state NOT IN {OVER}"  # SQL condition for live jobs that replace an ended job


def submit_held_job_argv(server: OarServerAccessSettings, spec: JobSpec, size: int) -> Argv:
    """Build the command that submits a held job; the script on standard input has `size` bytes."""
    program, *words = oarsub_argv(server, spec)
    argv = time_limited_oar_argv(server, program.rpartition("/")[2], *words)
    verb = "submit_array" if spec.tasks else "submit"
    return oar_frontend_script_argv(server, verb, str(size), *argv, ends=server.ends)


def oarsub_argv(server: OarServerAccessSettings, spec: JobSpec) -> Argv:
    """Build the command line of oarsub.

    OAR pastes a job's name and directory unquoted into Perl and SQL. So the name is that of a transfer, and the script
    itself changes the directory.
    """
    request, files = spec.request, ("-d", "/", "-O", "/dev/null", "-E", "/dev/null")
    needs: Argv = ("-l", oarsub_resource_option(request, spec.slots))
    condition = oarsub_property_condition(request)
    needs += ("-p", condition) if condition else ()
    needs += ("-q", request.targets) if request.targets else ()
    needs += tuple(word for kind in request.types for word in ("-t", kind))
    needs += ("--project", request.project) if request.project else ()
    program, named = f"{server.binaries}/oarsub", ("--hold", "--name", spec.transfer)
    if spec.tasks:
        return (program, *named, *files, *needs, "--array", str(spec.tasks), TASK_COMMAND)
    needs += (ENDED,) if server.ends else ()
    return (program, *named, *files, *needs, COMMAND)


def oarsub_resource_option(request: JobRequest, slots: int) -> str:
    """Return oarsub's option `-l`: the groups of slots, by default all slots on one node, and a walltime limit."""
    groups = request.groups or ((1, slots),)
    return "+".join(_request_of_slot_group(request, *group) for group in groups) + _walltime_of_request(request)


def _request_of_slot_group(request: JobRequest, nodes: int, slots: int) -> str:
    """Return a request of `slots` per node on `nodes` nodes (0: any), divided among units such as `/gpu`."""
    levels = f"{LEVEL}{NODES}={nodes}" if nodes else ""
    for name, value in _requests_for_oar(request):
        if name.startswith(LEVEL):
            levels += f"{name}={value}"
            slots = -(-slots // int(value))
    return f"{levels}/resource_id={slots}"


def _walltime_of_request(request: JobRequest) -> str:
    limit = next((value for name, value in request.hard if name == WALLTIME), "")
    if not limit or limit.upper() in NO_LIMIT:
        return ""
    seconds = parse_walltime_seconds(limit)
    return f",walltime={seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}"


def oarsub_property_condition(request: JobRequest) -> str:
    pairs = ((name, value) for name, value in _requests_for_oar(request) if not name.startswith(LEVEL))
    conditions = [_sql_comparison(name, value) for name, value in pairs]
    conditions += [f"({' OR '.join(_sql_comparison(*pair) for pair in clause)})" for clause in request.either]
    return " AND ".join(conditions)


def _sql_comparison(name: str, value: str) -> str:
    bare, relation = split_property_and_sql_relation(name)
    words = f"{bare} {WORDS.get(relation, relation)}"
    return words if relation in VALUELESS else f"{words} {quote_for_sql(value)}"


def explain_request_refusal(request: JobRequest) -> str:
    lacking = ["checkpointing"] if request.checkpoint else []
    lacking += ["-notify"] if request.notify else []
    either = [pair for clause in request.either for pair in clause]
    lacking += [name for name, _ in (*_requests_for_oar(request), *either) if not _is_property_name(name)]
    conditions = (*request.hard, *either)
    wrong = [f"{name}={value}" for name, value in conditions if not _is_safe_request_value(name, value)]
    lacking += [text for text in wrong if text.partition("=")[0] not in lacking]
    lacking += [f"choice of queues (-q {request.targets})"] if "," in request.targets else []
    return f"OAR has no {', '.join(lacking)}" if lacking else ""


def _is_safe_request_value(name: str, value: str) -> bool:
    if is_home_only_resource(name):
        return True
    if name == WALLTIME:
        parts = value.split(":")
        return value.upper() in NO_LIMIT or (len(parts) <= 3 and all(not part or part.isdecimal() for part in parts))
    if name.startswith(LEVEL):
        return value.isascii() and value.isdecimal() and int(value) > 0
    return value.isprintable() and "\\" not in value


def parse_walltime_seconds(limit: str) -> int:
    """Parse a Grid Engine time, `90` or `h:m:s` (sge_types(1)), as seconds; the smallest result is 1."""
    hours, minutes, seconds = ("::" + limit).split(":")[-3:]
    total = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return max(1, total)


def oar_job_keeper_perl_header(spec: JobSpec, tells: bool) -> str:
    """Return the Perl settings that precede keeper.pl; with `tells`, keeper.pl records the job's usage."""
    arguments = f"{quote_for_perl(spec.shell)}, {quote_for_perl(spec.cwd)}, {tells:d}, {spec.tasks}"
    return f"my ($shell, $cwd, $tells, $tasks) = ({arguments});\n"


def quote_for_perl(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_for_sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def show_nodes_argv(server: OarServerAccessSettings) -> Argv:
    return time_limited_oar_argv(server, "oarnodes", "-J")


def show_job_argv(server: OarServerAccessSettings, job: str) -> Argv:
    """Build the command that shows one job, even an ended job."""
    return time_limited_oar_argv(server, "oarstat", "-f", "-J", "-j", job)


def show_job_end_and_usage_argv(server: OarServerAccessSettings, job: str) -> Argv:
    show, folder = (" ".join(map(quote_for_sh, show_job_argv(server, job))), server.ends.rpartition("/")[0])
    with open(USED, encoding="ascii") as program:
        used = " ".join(map(quote_for_sh, ("/usr/bin/perl", "-e", program.read(), f"{folder}/used", job)))
    return ("/bin/sh", "-c", f"{show} && printf %s {quote_for_sh(BREAK.decode())} && {{ {used} || :; }}")


def show_jobs_by_sql_argv(server: OarServerAccessSettings, condition: str) -> Argv:
    return time_limited_oar_argv(server, "oarstat", "-f", "-J", "--sql", condition)


def jobs_by_name_condition(name: str, owner: str, condition: str) -> str:
    """Return the SQL condition for a user's jobs that have this name and meet a further condition."""
    return f"job_name = {quote_for_sql(name)} AND job_user = {quote_for_sql(owner)} AND {condition}"


def live_array_tasks_condition(*arrays: str) -> str:
    numbers = ", ".join(str(int(array)) for array in arrays)
    return f"array_id IN ({numbers}) AND state NOT IN {OVER}"


def ended_array_tasks_condition(arrays: list[tuple[int, tuple[int, ...]]]) -> str:
    condition = " OR ".join(
        f"array_id = {array} AND array_index IN ({', '.join(map(str, indices))})" for array, indices in arrays
    )
    return f"({condition}) AND state IN {OVER}"


def _requests_for_oar(request: JobRequest) -> list[tuple[str, str]]:
    return [(name, value) for name, value in request.hard if not is_home_only_resource(name) and name != WALLTIME]


def _is_property_name(name: str) -> bool:
    bare, _ = split_property_and_sql_relation(name.removeprefix(LEVEL))
    return bare.isascii() and bare.replace("_", "a").isalnum() and not bare[:1].isdigit()


def oar_frontend_script_argv(
    server: OarServerAccessSettings, verb: str, about: str, *words: str, ends: str = ""
) -> Argv:
    """Build the command that runs a verb of far.sh on OAR's frontend, with a command line of OAR."""
    oarstat = f"{server.binaries}/oarstat"
    with open(FAR, encoding="ascii") as body:
        return ("/bin/sh", "-c", body.read(), "sh", verb, about, oarstat, ends, *words)


def time_limited_oar_argv(server: OarServerAccessSettings, program: str, *words: str) -> Argv:
    """Build the command line of an OAR program; alarm(2) ends the program before the server's time limit."""
    limit_s = max(1, int(server.timeout_s) - ANSWER_S)
    return (*LIMITED, str(limit_s), f"{server.binaries}/{program}", *words)
