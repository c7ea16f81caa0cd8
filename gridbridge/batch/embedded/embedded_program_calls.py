"""Runs the embedded cluster's program; an answer is complete if its last line is a dot."""

from gridbridge.errors import ParseError
from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.fixed_paths import PYTHON
from gridbridge.model.job_request import (
    YIELDS,
    JobRequest,
    JobSpec,
    is_home_only_resource,
    split_property_and_sql_relation,
)
from gridbridge.model.transfer_route import EmbeddedClusterAccessSettings
from gridbridge.shell.program_runs import ANSWER_BYTES, CompletedProgram, run_program

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from typing import Self

Argv = tuple[str, ...]
OWN = "embedded"  # name of the queue whose jobs run in this cluster
WALLTIME = "h_rt"


def submit_held_job_argv(folder: EmbeddedClusterAccessSettings, spec: JobSpec) -> Argv:
    """Build the command that submits a held job (script on stdin); arrays enter no transfer queue."""
    names = (f"--name={spec.transfer}", f"--account={spec.transfer}", "--held")
    options = (f"--shell={spec.shell}", f"--cwd={spec.cwd}", f"--slots={spec.slots}")
    return embedded_program_command(folder, "submit", *names, *options, *(_array_options(spec) if spec.tasks else ()))


def _array_options(spec: JobSpec) -> Argv:
    options: Argv = (f"--tasks={spec.tasks}", f"--queue={OWN}")
    options += tuple(f"--walltime={limit}" for name, limit in spec.request.hard if name == WALLTIME)
    return (*options, "--yields") if YIELDS in spec.request.types else options


def embedded_program_command(folder: EmbeddedClusterAccessSettings, *words: str) -> Argv:
    return (folder.python or PYTHON, "-I", "-m", "gridbridge.batch.embedded", folder.folder, *words)


def run_embedded_program(
    folder: EmbeddedClusterAccessSettings, *words: str, most_bytes: int = ANSWER_BYTES
) -> CompletedProgram:
    argv = embedded_program_command(folder, *words)
    return run_program(argv, folder.command_environment(), folder.timeout_s, most_bytes=most_bytes)


def explain_request_refusal(request: JobRequest, *, is_array: bool = False) -> str:
    """Return why an embedded cluster can't satisfy a request; empty if it can.

    Only slots, and walltimes of array tasks, are accepted: the cluster would not enforce anything else.
    """
    ignored = (WALLTIME,) if is_array else ()
    unsupported = [name for name, _ in request.hard if not (is_home_only_resource(name) or name in ignored)]
    unsupported += [name for clause in request.either for name, _ in clause]
    unsupported = [split_property_and_sql_relation(name)[0] for name in unsupported]
    unsupported += ["checkpointing"] if request.checkpoint else []
    unsupported += ["-notify"] if request.notify else []
    return f"an embedded cluster has no {', '.join(unsupported)}" if unsupported else ""


WHOLE = b".\n"
BETWEEN = b"\n"


class PrintedKeyValueBlock:
    """A block of key-value lines that an embedded cluster prints; missing fields are empty."""

    def __init__(self, **values: str) -> None:
        for key in type(self).__annotations__:
            setattr(self, key, values.get(key, ""))

    @classmethod
    def parse_block(cls, block: bytes) -> "Self":
        """Parse a block; raise ParseError for an unknown field."""
        return cls(**transfer_messages_in_spool.decode_key_value_lines(block, tuple(cls.__annotations__)))


class PrintedEmbeddedCluster(PrintedKeyValueBlock):
    """The state of an embedded cluster as printed by verb `list`; all fields are text."""

    host: str
    slots: str
    used: str
    waiting: str  # number of jobs that wait for slots; campaigns' tasks don't count
    yielding: str  # number of slots that preemptible jobs use
    queues: str  # transfer queues, as `NAME=USED/SLOTS` separated by blanks


class PrintedEmbeddedJob(PrintedKeyValueBlock):
    """A waiting or running embedded job as printed by verb `list`; all fields are text."""

    id: str
    name: str
    account: str
    owner: str
    facts: str  # facts of the job's state (JobStateFact), separated by blanks
    state: str  # state letters as in qstat
    slots: str
    since: str  # start time, or a waiting job's submission time, in seconds since the epoch
    error: str
    message: str
    queue: str  # transfer queue in which the job runs; empty: queue `embedded`
    wanted: str  # requested queue; empty: any queue
    array: str  # array id; empty: not an array task
    place: str  # array index


class PrintedEmbeddedJobEnd(PrintedKeyValueBlock):
    """The printed end of a job, all fields as text; exit_status and signal are missing if the keeper died."""

    account: str
    exit_status: str
    signal: str
    reason: str
    host: str
    user_s: str
    system_s: str
    wallclock_s: str
    max_rss_kb: str
    written_kb: str
    killed_for: str  # why the job was killed (JobKillReason); empty: not killed
    place: str  # array index; empty: not an array task


def encode_embedded_answer(*blocks: PrintedKeyValueBlock) -> bytes:
    """Encode an answer as blocks of key-value lines, followed by a line with a dot."""
    return BETWEEN.join(transfer_messages_in_spool.encode_key_value_lines(vars(block)) for block in blocks) + WHOLE


def parse_embedded_cluster_and_jobs(answer: bytes) -> tuple[PrintedEmbeddedCluster, list[PrintedEmbeddedJob]]:
    """Parse the answer of verb `list`; raise ParseError for an incomplete answer."""
    if not (blocks := _split_answer_into_blocks(answer)):
        raise ParseError("embedded: the answer lacks the cluster")
    return PrintedEmbeddedCluster.parse_block(blocks[0]), list(map(PrintedEmbeddedJob.parse_block, blocks[1:]))


def parse_embedded_job_ends(answer: bytes) -> list[PrintedEmbeddedJobEnd]:
    return list(map(PrintedEmbeddedJobEnd.parse_block, _split_answer_into_blocks(answer)))


def _split_answer_into_blocks(answer: bytes) -> list[bytes]:
    if not (BETWEEN + answer).endswith(BETWEEN + WHOLE):
        raise ParseError("embedded: the answer is incomplete")
    body = answer.removesuffix(WHOLE)
    return [block.removesuffix(b"\n") + b"\n" for block in body.split(b"\n\n")] if body else []
