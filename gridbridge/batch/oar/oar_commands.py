"""Command lines of OAR's programs: pure, from values to argv (oarsub(1), oardel(1), ...).

They are setuid, so that their caller can't kill them, and without their database they try again
for ever. An alarm that is set before them ends them all the same (execve(2) keeps it).
"""

from gridbridge.model.request import (
    VALUELESS,
    WORDS,
    JobRequest,
    JobSpec,
    is_home_place,
    split_relation,
)
from gridbridge.model.route import OarServer
from gridbridge.shell.runner import quote

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Iterable

Argv = tuple[str, ...]

HERE = __file__.rpartition("/")[0]
FAR, KEEPER, USED = f"{HERE}/far.sh", f"{HERE}/keeper.pl", f"{HERE}/used.pl"
LIMITED = ("/usr/bin/perl", "-e", "alarm shift; exec {$ARGV[0]} @ARGV or exit 127")
ANSWER_S = 1  # the part of the time limit that is needed to report an alarm
BREAK, WHOLE = b"\n- - -\n", b"\n. . .\n"  # between two programs' words, and after the last
COMMAND = 'exec /usr/bin/perl "$HOME/.gridbridge/job.$OAR_JOB_ID"'  # same for csh
ARRAY = '"$HOME/.gridbridge/array.$OAR_ARRAY_ID"'
UNSTARTED = 57  # a signal of the wrapper's; perl's own exit status would be the task's
TASK_COMMAND = f"test -r {ARRAY} || kill -{UNSTARTED} $$; exec /usr/bin/perl {ARRAY}"  # csh's, too
WALLTIME = "h_rt"  # the resource that is OAR's walltime
NO_LIMIT = ("INFINITY", "NONE")  # in any case of letters
NODES = "nodes"  # as oarsub calls the level of network_address
LEVEL = "/"  # begins the name of a level of -l
ENDED = "--notify=exec:.gridbridge/ended"  # far.sh puts the job's own in its place
TELL_TIME = ("/bin/date", "+%s.%N")
SUSPEND, RESUME = "TSTP", "CONT"  # as keeper.pl takes them
END_OF_KEEPER = b"__END__\n"
OVER = "('Terminated', 'Error')"  # states, in SQL


def submit_held(server: OarServer, spec: JobSpec, size: int) -> Argv:
    """Submit a script of `size` bytes on standard input, held, under the transfer's name."""
    program, *words = oarsub(server, spec)
    argv = call(server, program.rpartition("/")[2], *words)
    verb = "submit_array" if spec.tasks else "submit"
    return _far(server, verb, str(size), *argv, ends=server.ends)


def oarsub(server: OarServer, spec: JobSpec) -> Argv:
    """Return oarsub's own command line.

    OAR writes a job's name and directory unquoted into a Perl program and its own SQL, so the
    script's first process changes the directory, and only a transfer's name is a job's name.
    """
    request, files = spec.request, ("-d", "/", "-O", "/dev/null", "-E", "/dev/null")
    needs: Argv = ("-l", resources(request, spec.slots))
    condition = properties(request)
    needs += ("-p", condition) if condition else ()
    needs += ("-q", request.targets) if request.targets else ()
    needs += tuple(word for kind in request.types for word in ("-t", kind))
    needs += ("--project", request.project) if request.project else ()
    program, named = f"{server.binaries}/oarsub", ("--hold", "--name", spec.transfer)
    if spec.tasks:
        return (program, *named, *files, *needs, "--array", str(spec.tasks), TASK_COMMAND)
    needs += (ENDED,) if server.ends else ()
    return (program, *named, *files, *needs, COMMAND)


def resources(request: JobRequest, slots: int) -> str:
    """Return the slots, by groups of nodes, and the time limit; without one OAR's default holds.

    Without groups all are on one node.
    """
    groups = request.groups or ((1, slots),)
    return "+".join(_group(request, *group) for group in groups) + _walltime(request)


def _group(request: JobRequest, nodes: int, slots: int) -> str:
    """Return `slots` on each of `nodes` nodes; 0 nodes: wherever they are free.

    Of a level, such as `/gpu`, as many are asked for, and the slots are spread over them.
    """
    levels = f"{LEVEL}{NODES}={nodes}" if nodes else ""
    for name, value in _requested(request):
        if name.startswith(LEVEL):
            levels += f"{name}={value}"
            slots = -(-slots // int(value))
    return f"{levels}/resource_id={slots}"


def _walltime(request: JobRequest) -> str:
    limit = next((value for name, value in request.hard if name == WALLTIME), "")
    if not limit or limit.upper() in NO_LIMIT:
        return ""
    seconds = seconds_of(limit)
    return f",walltime={seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}"


def properties(request: JobRequest) -> str:
    """Return the resources that are properties there, as a condition of SQL."""
    pairs = ((name, value) for name, value in _requested(request) if not name.startswith(LEVEL))
    conditions = [_condition(name, value) for name, value in pairs]
    conditions += [
        f"({' OR '.join(_condition(*pair) for pair in clause)})" for clause in request.either
    ]
    return " AND ".join(conditions)


def _condition(name: str, value: str) -> str:
    bare, relation = split_relation(name)
    words = f"{bare} {WORDS.get(relation, relation)}"
    return words if relation in VALUELESS else f"{words} {sql(value)}"


def refusal(request: JobRequest) -> str:
    """Return why OAR can't give what a job asked for; empty when it can, as far as we know."""
    lacking = ["checkpointing"] if request.checkpoint else []
    lacking += ["-notify"] if request.notify else []
    either = [pair for clause in request.either for pair in clause]
    lacking += [name for name, _ in (*_requested(request), *either) if not _is_property(name)]
    conditions = (*request.hard, *either)
    wrong = [f"{name}={value}" for name, value in conditions if not _is_right(name, value)]
    lacking += [text for text in wrong if text.partition("=")[0] not in lacking]
    lacking += [f"-q {request.targets}, only one queue"] if "," in request.targets else []
    return f"OAR has no {', '.join(lacking)}" if lacking else ""


def _is_right(name: str, value: str) -> bool:
    """Say whether a value can be asked for; a backslash means something in MySQL's literals."""
    if is_home_place(name):
        return True
    if name == WALLTIME:
        parts = value.split(":")
        return value.upper() in NO_LIMIT or (
            len(parts) <= 3 and all(not part or part.isdecimal() for part in parts)
        )
    if name.startswith(LEVEL):
        return value.isascii() and value.isdecimal() and int(value) > 0
    return value.isprintable() and "\\" not in value


def seconds_of(limit: str) -> int:
    """Read Grid Engine's time, `90` or `h:m:s` with empty parts (sge_types(1)); at least 1."""
    hours, minutes, seconds = ("::" + limit).split(":")[-3:]
    total = int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return max(1, total)


def keeper(spec: JobSpec, tells: bool) -> str:
    """Return what stands above keeper.pl; it notes the usage if an end is told."""
    arguments = f"{perl(spec.shell)}, {perl(spec.cwd)}, {tells:d}, {spec.tasks}"
    return f"my ($shell, $cwd, $tells, $tasks) = ({arguments});\n"


def perl(text: str) -> str:
    """Quote one word for Perl."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def sql(text: str) -> str:
    """Quote one word for SQL."""
    return "'" + text.replace("'", "''") + "'"


def show_nodes(server: OarServer) -> Argv:
    """Show every resource with all of its properties."""
    return call(server, "oarnodes", "-J")


def show_job(server: OarServer, job: str) -> Argv:
    """Show one job, also when it is over; nothing when there is none."""
    return call(server, "oarstat", "-f", "-J", "-j", job)


def show_end(server: OarServer, job: str) -> Argv:
    """Show one job, with the usage notes of everybody who claims it."""
    show, folder = " ".join(map(quote, show_job(server, job))), server.ends.rpartition("/")[0]
    with open(USED, encoding="ascii") as program:
        used = " ".join(map(quote, ("/usr/bin/perl", "-e", program.read(), f"{folder}/used", job)))
    return ("/bin/sh", "-c", f"{show} && printf %s {quote(BREAK.decode())} && {{ {used} || :; }}")


def show_held(server: OarServer, transfer: str, owner: str) -> Argv:
    """Show a person's held jobs of a name."""
    condition = f"job_name = {sql(transfer)} AND job_user = {sql(owner)} AND state = 'Hold'"
    return call(server, "oarstat", "-f", "-J", "--sql", condition)


def show_copies(server: OarServer, transfer: str, owner: str) -> Argv:
    """Show the live jobs that OAR made by itself from a person's job of a name."""
    own_jobs = f"job_name = {sql(transfer)} AND job_user = {sql(owner)}"
    condition = f"{own_jobs} AND resubmit_job_id <> 0 AND state NOT IN {OVER}"
    return call(server, "oarstat", "-f", "-J", "--sql", condition)


def show_version(server: OarServer) -> Argv:
    """Show which OAR it is; the database is not asked."""
    return call(server, "oarstat", "-V")


def show_scripts(server: OarServer) -> Argv:
    """Show the names of the scripts that wait for their jobs."""
    return _far(server, "ls", ".")


def hold(server: OarServer, job: str) -> Argv:
    """Ask that a waiting job is not started."""
    return call(server, "oarhold", job)


def release(server: OarServer, job: str) -> Argv:
    """Ask that a held job may start."""
    return call(server, "oarresume", job)


def release_arrays(server: OarServer, arrays: Argv) -> Argv:
    """Ask that all held jobs of some arrays may start."""
    return call(server, "oarresume", "--array", *arrays)


def delete_array(server: OarServer, array: str) -> Argv:
    """Delete all jobs of an array."""
    return _far(server, "delete_array", array, *call(server, "oardel", "--array", array))


def delete_tasks(server: OarServer, array: str, jobs: dict[str, int]) -> Argv:
    """Delete some jobs of an array, given with their places in it; the others keep its script."""
    about = " ".join((array, *map(str, jobs.values())))
    return _far(server, "delete_tasks", about, *call(server, "oardel", *jobs))


def show_living(server: OarServer, *arrays: str) -> Argv:
    """Show the jobs of arrays that are not over."""
    condition = (
        f"array_id IN ({', '.join(str(int(array)) for array in arrays)}) AND state NOT IN {OVER}"
    )
    return call(server, "oarstat", "-f", "-J", "--sql", condition)


def show_ended(server: OarServer, arrays: "Iterable[tuple[int, Iterable[int]]]") -> Argv:
    """Show the jobs at some places of arrays that are over."""
    condition = " OR ".join(
        f"array_id = {array} AND array_index IN ({', '.join(map(str, indices))})"
        for array, indices in arrays
    )
    return call(server, "oarstat", "-f", "-J", "--sql", f"({condition}) AND state IN {OVER}")


def send(server: OarServer, signal: str, job: str) -> Argv:
    """Send a signal to the first process of a running job."""
    return call(server, "oardel", "-s", signal, job)


def delete(server: OarServer, job: str) -> Argv:
    """Delete a job, and the script that waits for it."""
    return _far(server, "delete", job, *call(server, "oardel", job))


def _requested(request: JobRequest) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in request.hard
        if not is_home_place(name) and name != WALLTIME
    ]


def _is_property(name: str) -> bool:
    bare, _ = split_relation(name.removeprefix(LEVEL))
    return bare.isascii() and bare.replace("_", "a").isalnum() and not bare[:1].isdigit()


def _far(server: OarServer, verb: str, about: str, *words: str, ends: str = "") -> Argv:
    oarstat = f"{server.binaries}/oarstat"
    with open(FAR, encoding="ascii") as body:
        return ("/bin/sh", "-c", body.read(), "sh", verb, about, oarstat, ends, *words)


def call(server: OarServer, program: str, *words: str) -> Argv:
    """Run one of OAR's programs, ended by an alarm before the time limit."""
    limit_s = max(1, int(server.timeout_s) - ANSWER_S)
    return (*LIMITED, str(limit_s), f"{server.binaries}/{program}", *words)
