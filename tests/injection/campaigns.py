"""Kill the runner, nikita, root's helper or carriers at each line of their code; check that a new run continues.

usage: python -m tests.injection.campaigns SCENARIO [EACH [FIRST]]
EACH is 1 for every kill, 9 for each ninth, from number FIRST on; 0 for A_DAY kills, which FIRST, a day, selects.
Prints a line for each wrong end, and the number of kills; exit status 1 for a wrong end.
"""

import hashlib
import mmap
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import sqlalchemy as sa

import gridbridge
from gridbridge.batch import privileged_helper_calls
from gridbridge.campaigns.cli import checkpoint_copier_and_remover, task_output_carrier, task_record_reader
from gridbridge.campaigns.nikita.task_deletion_cycle import NikitaDaemon
from gridbridge.campaigns.runner import background_input_carries, background_readings, campaign_program_start
from gridbridge.campaigns.runner.campaign_runner import CampaignRunnerCycle, CampaignRunnerDaemon
from gridbridge.campaigns.store import campaign_file_verification, campaign_files_of_owners, campaign_inbox
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows, InputCarryRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows, TaskDeletionMarkRows, UnbroughtOutputRows
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointCarryRows, CheckpointStatisticsRows
from gridbridge.config import configuration_file
from gridbridge.decisions.campaigns import checkpoint_carries
from gridbridge.decisions.campaigns.task_usage_warnings import COUNTED
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_file_and_array_names import ADDS_TO, INPUT_GROUPS, UNIQUE
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb
from gridbridge.model.campaigns.campaign_predecessors import CampaignPredecessor, PredecessorCondition
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_index_and_attempt_texts import FIRST_PROLOGUE_TASK, STEPS
from gridbridge.model.campaigns.task_input_files import TaskInputFile, task_line_with_inputs
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, HOME, LEDGER, PUBLISHED
from gridbridge.model.site_configuration import Policy
from gridbridge.privileged import as_user as as_user_program
from gridbridge.privileged import as_user_refusals_and_user_switch, carry_task_files
from gridbridge.program import service_cycle
from gridbridge.rebalance.mover.rebalance_plan_by_target import RebalanceTarget, RebalanceTargetKind
from gridbridge.rebalance.mover.task_rebalancer import WaitingTaskRebalancer
from gridbridge.rebalance.replicas.task_input_carrier import run_task_input_carrier
from gridbridge.shell import rsync
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.campaign_tables import ATTEMPTS
from gridbridge.state.state_file import StateFile
from tests.builders.mounts import memory_mounted
from tests.builders.programs import write_program
from tests.injection import killing, sandbox
from tests.injection.killing import check

ALICE = 4000
ALICES = Path("/opt/alice")  # her home
RESULTS = ALICES / "results"
TASKS = 12  # more than the nine slots of a cell, for which one call sends three arrays
ADDED = 3  # of them, where they come as a part
CELLS = ("beta", "delta")
CYCLES = 12
BACKGROUND_S = 30.0  # cycles go on as long, since programs of owners run beside them
STATE = f"sqlite:///{HOME}/state.db"
RAN = sandbox.CELLS / "ran"
HANGS = sandbox.CELLS / "hangs"
PACKAGE = Path(gridbridge.__file__).parent
RUNNERS = ("campaigns/runner/", *(f"campaigns/store/{name}" for name in ("camp", "predecessor_rows", "checkpoint")))
NIKITAS = (
    *("campaigns/nikita/", "campaigns/runner/owner_requests", "campaigns/runner/array_commands_as_owner"),
    *("campaigns/store/campaign_task_rows", "campaigns/store/campaign_files_of_owners"),
    "campaigns/store/campaign_file_verification",
)
MOVERS = (
    *(
        "rebalance/mover/",
        "rebalance/replicas/",
        "rebalance/replica_act_and_move_tables",
        "transfer/transfer_history_rows",
    ),
    "campaigns/store/campaign_task_rows",
)
MOVED_BY = ("campaigns/runner/", "campaigns/store/camp")
ARRAYS = (
    "as_user_array",
    "campaign_",
    "earlier_attempts",
    "send_arrays",
    "tasks_of_",
    "as_user_refusals_and_user_switch",
)
CARRIERS = (
    *("privileged/carry_task_files", "rebalance/replicas/task_input_carrier", "rebalance/replicas/carried_input_files"),
    *("campaigns/cli/task_output", "campaigns/cli/task_record_reader", "campaigns/cli/checkpoint_copier"),
)
OWNERS = (
    *(f"privileged/{name}" for name in ARRAYS),
    "campaigns/store/root_ledger",
    "gridengine/job_submission_and_control",
)
CONFIGURATION = f"""
[site]
cluster = "alpha"
[cluster.alpha]
qmaster_port = 1
execd_port = 2
binaries = "{sandbox.CELLS}/alpha/bin"
[cluster.beta]
qmaster_port = 3
execd_port = 4
binaries = "{sandbox.CELLS}/beta/bin"
[cluster.delta]
qmaster_port = 5
execd_port = 6
binaries = "{sandbox.CELLS}/delta/bin"
[storage.beta-disk]
cluster = "beta"
path = "{sandbox.CELLS}/beta/disk"
[storage.delta-disk]
cluster = "delta"
path = "{sandbox.CELLS}/delta/disk"
[campaigns.beta]
inputs_storage = "beta-disk"
[campaigns.delta]
inputs_storage = "delta-disk"
[runner]
max_tasks = 4
[failures]
probe_s = 1
"""

OF_TASK = f"""#!/bin/sh
# checks that a task's whole inputs are at the cell, and writes its output
cd "$2/disk/gbalice/.inputs" && sha256sum --quiet -c "{sandbox.CELLS}/needs/$1" >&2 || exit
mkdir -p {ALICES}/campaign.1/"$1" && echo "output of $1" >{ALICES}/campaign.1/"$1"/out
"""
OF_WORKFLOW = f"""#!/bin/sh
# succeeds in campaign 1 at the second attempt; in campaign 2 only after the same task of campaign 1
case $3.$4 in
gc.alpha.1.*.1) exit 66 ;;
gc.alpha.1.*) : >"{sandbox.CELLS}/succeeded.$1" ;;
*) [ -e "{sandbox.CELLS}/succeeded.$1" ] || exit 9 ;;
esac
"""
SAVED, LAST = 4, 3  # tasks with checkpoints, and the attempt that succeeds; the attempts before are preempted
OF_SAVING_TASK = f"""#!/bin/sh
# notes a checkpoint that took half a second, as checkpoint.sh does, and is preempted
[ "$1" -lt {SAVED} ] && [ "$4" -lt {LAST} ] || exit 0
mkdir -p {ALICES}/campaign.1 && echo 50 >{ALICES}/campaign.1/"$1.$4.checkpoints" && exit 55
"""
CARRIED = ("0", "2", "3")  # tasks whose checkpoints are carried, because beta is full once they are preempted there
OF_CARRIED_TASK = f"""#!/bin/sh
# is preempted with a checkpoint, and goes on only with the checkpoint
case $1 in {" | ".join(CARRIED)}) ;; *) exit 0 ;; esac
cd {ALICES}/"${{2##*/}}" && mkdir -p -m 700 campaign.1 && cd campaign.1 && ln -sfT alpha.1 .campaign || exit 1
case $4 in
1) mkdir "$1.1" && echo saved >"$1.1/state" && echo "50 6" >"$1.1.checkpoints" ;;
*) cat "$1.1/state" && exit 0 || exit 9 ;;
esac
echo 0 >"$2/slots" && echo 9 >"$2/../delta/slots" && exit 55
"""
KILLS_JOB = 5  # the task whose first attempt is preempted with its job
OF_GROUPED_TASK = f"""#!/bin/sh
# records a task's run, as group.sh does
[ -n "$6" ] || exit 0
mkdir -p {ALICES}/campaign.1 && cd {ALICES}/campaign.1 || exit 1
s=$(cat "group.$6.$5" 2>/dev/null | wc -l)
echo "begin $1.$4 ${{s}}00 " >>"group.$6.$5"
[ "$1.$4" != {KILLS_JOB}.1 ] || exit 55
echo "exit $1.$4 $((s + 1))00 0" >>"group.$6.$5"
"""
COPY = """#!/bin/sh
# stands for rsync, which copies the listed links of a local folder
for target; do :; done
tr '\\0' '\\n' | while read -r path; do cp -L "/$path" "$target/${path##*/./}" || exit; done
"""

Place = tuple[str, int]  # a file and a line


class Killer:
    """Kills the first process that reaches a line. Without a line it records all reached lines."""

    def __init__(self) -> None:
        self.files: tuple[str, ...] = ()
        self.target: Place | None = None
        self.places: list[Place] = []
        self.done = mmap.mmap(-1, 1)  # shared with children

    def aim(self, files: tuple[str, ...], target: Place | None = None) -> None:
        """Set the files to watch, and the line at which to kill."""
        self.files, self.target, self.done[0] = files, target, 0

    def begin(self) -> None:
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if event != "call" or not any(f"/gridbridge/{part}" in path for part in self.files):
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and self.target is None:
            os.write(NOTES, f"{place[0]} {place[1]}\n".encode())
        elif event == "line" and place == self.target and not self.done[0]:
            self.done[0] = 1
            os.kill(os.getpid(), signal.SIGKILL)
        return self._line


KILLER = Killer()
NOTES = -1


def call(argv: tuple[str, ...], env: Any, patience_s: float, *_: Any) -> CompletedProgram:
    """Run gridbridge-as-user in a child, as sudo would."""
    del env, patience_s
    return _result(argv, "call", os.waitpid(_fork_as_user(argv, "call"), 0)[1])


def _fork_as_user(argv: tuple[str, ...], name: str) -> int:
    child = os.fork()
    if child == 0:
        for number, path in ((1, f"/opt/{name}.out"), (2, f"/opt/{name}.err")):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["gridbridge-as-user", *argv[3:]]
        sys.settrace(None)
        if KILLER.files in (OWNERS, CARRIERS):
            KILLER.begin()
        as_user_program.main()
        os._exit(0)
    return child


def _result(argv: tuple[str, ...], name: str, status: int) -> CompletedProgram:
    stdout, stderr = (Path(f"/opt/{name}.{end}").read_bytes() for end in ("out", "err"))
    return CompletedProgram(argv, os.waitstatus_to_exitcode(status), stdout, stderr)


class CarrierBesideRunner:
    """A run of gridbridge-as-user that goes on beside the runner, and after it."""

    def __init__(self, *words: str) -> None:
        self.argv = (*privileged_helper_calls.SUDO_AS_USER, *words)
        self.name = f"carrier.{os.getpid()}.{time.monotonic_ns()}"
        self.pid = _fork_as_user(self.argv, self.name)
        self.result: CompletedProgram | None = None

    def result_if_ended(self) -> CompletedProgram | None:
        pid, status = (0, 0) if self.result else os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.result = _result(self.argv, self.name, status)
        return self.result


class EndedCarrier(NamedTuple):
    result: CompletedProgram

    def result_if_ended(self) -> CompletedProgram:
        return self.result


def start(*words: str) -> EndedCarrier:
    """Run gridbridge-as-user to its end, where the runner would go on beside it."""
    return EndedCarrier(call((*privileged_helper_calls.SUDO_AS_USER, *words), None, 0.0))


def become_carrier(person: str, program: tuple[str, ...], words: tuple[str, ...]) -> NoReturn:
    """Carry task files in this process, which a new interpreter would hide from the killer."""
    os.environ.clear()
    os.environ.update(as_user_refusals_and_user_switch.environment_of_person(person, str(ALICES)))
    sys.argv = ["carrier", *words]
    programs = {
        carry_task_files.MODULES["bring-outputs"]: task_output_carrier.run_task_output_carrier,
        carry_task_files.MODULES["carry-checkpoints"]: checkpoint_copier_and_remover.run_checkpoint_copier_and_remover,
        carry_task_files.MODULES["read-records"]: task_record_reader.run_task_record_reader,
    }
    status = programs.get(program[-1], run_task_input_carrier)()
    sys.stdout.flush()
    os._exit(status)


def runner(forgotten_s: float = 60.0) -> CampaignRunnerCycle:
    """Return a runner without pauses, for which no cell sees the files of this host.

    After `forgotten_s` it counts an unlisted task as deleted.
    """
    program = CampaignRunnerCycle(_impatient(forgotten_s), Clock())
    program._actions.inputs._remote_clusters = {*CELLS}
    return program


def _impatient(forgotten_s: float = 60.0) -> Policy:
    policy = configuration_file.load_configuration(CONFIG)
    return replace(
        policy,
        failures=replace(policy.failures, probe_s=0.0),
        poller=replace(policy.poller, interval_s=0.0),  # an answer of a cycle before is too old
        runner=replace(policy.runner, forgotten_s=forgotten_s),
        nikita=replace(policy.nikita, grace_s=0.0),
    )


def cycles(
    is_done: Callable[[CampaignRows], bool], most: int = CYCLES, forgotten_s: float = 60.0
) -> Callable[[], None]:
    def act() -> None:
        if KILLER.files == RUNNERS:
            KILLER.begin()
        program = runner(forgotten_s)
        deadline = time.monotonic() + BACKGROUND_S
        ran = 0
        while ran < most or time.monotonic() < deadline:
            program.process_inbox()
            service_cycle.run_cycle_once(program, lambda _: None)
            if is_done(CampaignRows(program.database)):
                return
            ran += 1
        raise AssertionError(f"not done after {ran} cycles")

    return act


def run_from_cron() -> None:
    """Run gridbridge-runner without --loop."""
    vars(privileged_helper_calls)["start_gridbridge_as_user"] = CarrierBesideRunner
    daemon = CampaignRunnerDaemon(_impatient(), Clock())
    daemon.runner._actions.inputs._remote_clusters = {*CELLS}
    signals = SimpleNamespace(is_stopped=False, wait_for_signal=time.sleep)
    campaign_program_start.run_cycles_until_programs_end(daemon, signals, Clock(), is_dry=False)


def wiping() -> None:
    if KILLER.files == NIKITAS:
        KILLER.begin()
    daemon = NikitaDaemon(_impatient(), Clock())
    for _ in range(2):
        with daemon.open_cycle() as program:
            service_cycle.run_cycle_once(program, lambda _: None)


def is_over(campaigns: CampaignRows) -> bool:
    """Say whether all campaigns have ended; False while there is none."""
    return not campaigns.unfinished_campaigns() and bool(campaigns.all_campaigns())


def is_wound_up(campaigns: CampaignRows) -> bool:
    """Say whether all campaigns have ended; True if there is none."""
    return not campaigns.unfinished_campaigns()


def brought(is_idempotent: bool = False) -> None:
    clusters = {name: JdlSettingsAtCluster(exec_file="run") for name in CELLS}
    bring(asdict(Jdl(name="sweep", clusters=clusters, is_idempotent=is_idempotent)) | {UNIQUE: "1"}, range(TASKS))


def bring(header: dict[str, object], tasks: Iterable[object]) -> None:
    data = campaign_files_of_owners.encode_campaign_file(header, tuple(map(str, tasks)))
    hers(f"new.{campaign_files_of_owners.write_campaign_file_to_inbox(data)}")


def with_files() -> None:
    """Submit a campaign of which two tasks at a time share an input, and all tasks another; each has an output."""
    files, needs = ALICES / "reads", sandbox.CELLS / "needs"
    for folder in (files, needs):
        folder.mkdir()
    for name in CELLS:
        (sandbox.CELLS / name / "disk").mkdir()
        (sandbox.CELLS / name / "disk").chmod(0o1777)
    write_program(sandbox.CELLS / "task", OF_TASK)
    lines = []
    for task in range(TASKS):
        inputs = []
        for name in ("ref", f"{task // 2}.in"):
            path, content = files / name, f"content of {name}\n".encode()
            path.write_bytes(content)
            inputs.append(TaskInputFile(name, str(path), len(content), hashlib.sha256(content).hexdigest()))
        (needs / str(task)).write_text("".join(f"{file.digest}  {file.digest}\n" for file in inputs))
        lines.append(task_line_with_inputs(str(task), inputs))
    wish = JdlSettingsAtCluster(exec_file="run")
    jdl = Jdl(name="sweep", clusters=dict.fromkeys(CELLS, wish), inputs=(f"{files}/./*",), outputs=("out",))
    groups = [[task, task + 1, task // 2] for task in range(0, TASKS, 2)]
    bring(asdict(replace(jdl, outputs_to=str(RESULTS))) | {UNIQUE: "1", INPUT_GROUPS: groups}, lines)


def workflow() -> None:
    """Submit a campaign of which each task waits for the same task of another campaign."""
    write_program(sandbox.CELLS / "task", OF_WORKFLOW)
    brought()
    runner().process_inbox()
    after = (CampaignPredecessor(name="sweep", condition=PredecessorCondition.SAME),)
    clusters = {name: JdlSettingsAtCluster(exec_file="run") for name in CELLS}
    bring(asdict(Jdl(name="next", clusters=clusters, after=after)) | {UNIQUE: "1"}, range(TASKS))


def saving() -> None:
    """Submit a campaign of which some tasks are preempted, with a checkpoint; no other preempted task is retried."""
    write_program(sandbox.CELLS / "task", OF_SAVING_TASK)
    Path(CONFIG).write_text(f"{CONFIGURATION}preempted = 0\n")
    wish = JdlSettingsAtCluster(exec_file="run")
    jdl = Jdl(name="sweep", clusters=dict.fromkeys(CELLS, wish), checkpoint_files=("state",), may_move=False)
    bring(asdict(jdl) | {UNIQUE: "1"}, range(TASKS))


def pulling() -> None:
    """Submit a campaign of which a job of four tasks runs at each cell, and gets the last tasks while it runs."""
    Path(CONFIG).write_text(CONFIGURATION.replace("[runner]", "[runner]\npull = true"))
    grouped(slots=1)


def carrying() -> None:
    """Submit a campaign to beta, where some tasks are preempted with a checkpoint; then only delta has free slots."""
    write_program(sandbox.CELLS / "task", OF_CARRIED_TASK)
    vars(checkpoint_carries)["CARRY_CALLS_S"] = 0.5  # a task runs for a second
    clusters = {}
    for name, slots in zip(CELLS, ("9", "0"), strict=True):
        (sandbox.CELLS / name / "slots").write_text(slots)
        (sandbox.CELLS / name / "slots").chmod(0o666)
        (ALICES / name).mkdir()
        os.chown(ALICES / name, ALICE, -1)
        clusters[name] = JdlSettingsAtCluster(exec_file="run", exec_directory=str(ALICES / name))
    jdl = Jdl(name="sweep", clusters=clusters, checkpoint_files=("state",), may_move=False)
    bring(asdict(jdl) | {UNIQUE: "1"}, range(TASKS))


def grouped(slots: int = 2) -> None:
    """Submit a campaign of which each job runs several tasks; a task is preempted with its job, no other is retried."""
    write_program(sandbox.CELLS / "task", OF_GROUPED_TASK)
    for name in CELLS:
        (sandbox.CELLS / name / "slots").write_text(str(slots))
    wish = JdlSettingsAtCluster(exec_file="run", temporal_grouping=True)
    bring(asdict(Jdl(name="sweep", clusters=dict.fromkeys(CELLS, wish))) | {UNIQUE: "1"}, range(TASKS))


def is_all_home(campaigns: CampaignRows) -> bool:
    """Say whether the campaign has ended, all outputs are home, and no copy of an input is left."""
    database = campaigns.database
    is_closed = is_over(campaigns) and not campaigns.ended_campaigns_not_in_ledger(0, 1)
    left = UnbroughtOutputRows(database).campaigns_and_clusters_with_outputs()
    return is_closed and not left and not InputCarryRows(database).input_copies_of_ended_campaigns()


def whole() -> None:
    """Submit a campaign with a prologue and an epilogue; add its last tasks in a later part."""
    wish = JdlSettingsAtCluster(exec_file="run", prologue="make", epilogue="clean")
    jdl = asdict(Jdl(name="sweep", clusters=dict.fromkeys(CELLS, wish))) | {UNIQUE: "1"}
    bring(jdl, range(TASKS - ADDED))
    runner().process_inbox()
    bring({ADDS_TO: 1}, range(TASKS - ADDED, TASKS))


def prepared() -> None:
    whole()
    _a_cycle()
    request_cancellation()


def request_cancellation() -> None:
    hers(f"ask.{campaign_files_of_owners.write_owner_request_to_inbox(CampaignOwnerRequestVerb.CANCEL, (1,))}")


def hers(name: str) -> None:
    """Move a file into alice's folder of the spool, as if alice had written the file."""
    folder = Path(CAMPAIGNS, f"u.{ALICE}")
    folder.mkdir(exist_ok=True)
    folder.chmod(0o770)
    os.chown(folder, ALICE, -1)
    brought = Path(campaign_inbox.make_own_inbox_folder(CAMPAIGNS), name).rename(folder / name)
    os.chown(brought, ALICE, -1)


def hanging() -> None:
    """Submit the campaign with a task that hangs and may be copied."""
    HANGS.write_text(f"{TASKS - 1}\n")
    brought(is_idempotent=True)


def cancelled() -> None:
    """Submit the campaign, send an array that is not released, and request the cancellation."""
    brought()
    program = runner()
    program.process_inbox()
    campaigns = CampaignRows(program.database)
    array = campaigns.create_array(1, "beta", 3, Clock().now())
    assert array
    release = sandbox.CELLS / "beta/bin/qalter"
    missing = release.rename(release.with_name("missing"))
    program._actions._submissions.submit_new_arrays([array])
    missing.rename(release)
    request_cancellation()


def flooded() -> None:
    """Submit the campaign, and send tasks to two cells where no task starts."""
    for name in CELLS:
        (sandbox.CELLS / name / "waits").touch()
    brought()
    _a_cycle()


def full_there() -> None:
    """Have the campaign's tasks wait at beta while delta is full; then give delta free slots."""
    (sandbox.CELLS / "beta" / "waits").touch()
    delta = sandbox.CELLS / "delta" / "slots"
    delta.write_text("0")
    brought()
    _a_cycle()
    delta.write_text("5")


def rebalancer() -> WaitingTaskRebalancer:
    policy = _impatient()
    policy = replace(policy, rebalance=replace(policy.rebalance, least_wait_s=0.0, host_rest_s=0.0))
    return WaitingTaskRebalancer(policy, Clock(), RebalanceTarget(what=RebalanceTargetKind.HOST, name="beta"))


def moving() -> None:
    """Run a cycle of rebalancing, two cycles of nikita, and three cycles of the runner."""
    if KILLER.files in (MOVERS, MOVED_BY):
        KILLER.begin()
    program = rebalancer()
    service_cycle.run_cycle_once(program, lambda _: None)
    program.database.close()
    wiping()
    for _ in range(3):
        _a_cycle(forgotten_s=0.0)


def moved_once() -> list[str]:
    """Run further cycles of rebalancing, then let tasks start; check that each task succeeds once."""
    status, rows = _run_on(moving)
    (sandbox.CELLS / "beta" / "waits").unlink()
    return [
        *check("the end of the next round", status, 0),
        *check("what ran at delta", bool(rows), True),
        *ran_once(forgotten_s=0.0),
    ]


def killed() -> None:
    flooded()
    request_cancellation()


def reset() -> None:
    KILLER.aim(())
    sandbox.reset()
    shutil.rmtree(LEDGER, ignore_errors=True)
    sandbox._make_cell(sandbox.CELLS / "delta")
    sandbox.CELLS.chmod(0o777)
    shutil.rmtree(ALICES, ignore_errors=True)
    for folder in (ALICES, RESULTS):
        folder.mkdir(mode=0o700)
        os.chown(folder, ALICE, -1)
    for path in (RAN, killing.COUNT, *(sandbox.CELLS / one / "calls" for one in ("alpha", *CELLS))):
        path.touch()
        path.chmod(0o666)
    Path(CAMPAIGNS).mkdir(mode=0o1733)
    Path(CONFIG).write_text(CONFIGURATION)


def ran_once(forgotten_s: float = 60.0) -> list[str]:
    """Run to the end; check that each task succeeded once, and that no job or file is left.

    No attempt may run twice.
    """
    status, rows = _run_on(cycles(is_over, forgotten_s=forgotten_s))
    return [*_each_succeeded_once(status, rows), *_is_clean(CampaignState.TERMINATED, (TASKS, 0))]


def _run_on(act: Callable[[], None]) -> tuple[int, list[list[str]]]:
    """Run a program without a kill; return its exit status and the words of each line that jobs wrote."""
    KILLER.aim(())
    status = killing.run(act)
    return status, [line.split() for line in RAN.read_text().splitlines()]


def _each_succeeded_once(status: int, rows: list[list[str]]) -> list[str]:
    tasks = [row for row in rows if row[0].isdigit()]  # without prologues and epilogues
    attempts = Counter((task, attempt) for task, attempt, *_ in tasks)
    successes = Counter(task for task, _, _, code in tasks if code == "0")
    return [
        *check("the runner's end", status, 0),
        *check("what ran twice", [one for one, times in attempts.items() if times > 1], []),
        *check("successes", successes, Counter(map(str, range(TASKS)))),
    ]


def carried_once() -> list[str]:
    """Run to the end; check that each task had its inputs, that its output is home, and that no copy is left."""
    status, rows = _run_on(FILES)
    brought = {str(path.relative_to(RESULTS)): path.read_text() for path in RESULTS.rglob("*") if path.is_file()}
    ours = [*(ALICES / ".gridbridge").iterdir(), *sandbox.CELLS.glob("*/disk/gbalice/.inputs*")]
    left = sorted(str(path) for path in ours if path.suffix != ".lock")
    return [
        *_each_succeeded_once(status, rows),
        *check("the results", brought, {f"{task}/out": f"output of {task}\n" for task in range(TASKS)}),
        *check("what is left", left, []),
        *_is_clean(CampaignState.TERMINATED, (TASKS, 0)),
    ]


def followed_once() -> list[str]:
    """Run to the end; check that each task of both campaigns succeeded once, and none was sent before the same task."""
    status, rows = _run_on(WORKFLOW)
    return [
        *check("the runner's end", status, 0),
        *check(
            "successes",
            Counter(task for task, _, _, code in rows if code == "0"),
            dict.fromkeys(map(str, range(TASKS)), 2),
        ),
        *check("early tasks", [row for row in rows if row[3] == "9"], []),
        *_is_clean(CampaignState.TERMINATED, (TASKS, 0), ["c.1", "c.2"]),
    ]


def saved_once() -> list[str]:
    """Run to the end; check that each saved task went on at its cell, and that each checkpoint counts once."""
    status, rows = _run_on(SAVING)
    saved = [(task, cell) for task, _, cell, code in rows if code == "183"]
    with closing(StateFile.open(STATE)) as database:
        times = CheckpointStatisticsRows(database).checkpoint_times([1])
    checkpoints = SAVED * (LAST - 1) - 1  # the first attempt of task 1 asks to run again
    return [
        *_each_succeeded_once(status, rows),
        *check("the preempted attempts", len(saved), checkpoints),
        *check("tasks that changed their cell", len({*saved}), SAVED),
        *check(
            "the next attempts",
            [row for row in rows if row[3] != "66" and row[2] != dict(saved).get(row[0], row[2])],
            [],
        ),
        *check("the times", [(one.times.timed, one.times.total_s) for one in times], [(checkpoints, checkpoints / 2)]),
        *_is_clean(CampaignState.TERMINATED, (TASKS, 0)),
    ]


def are_copies_removed(campaigns: CampaignRows) -> bool:
    return is_over(campaigns) and not CheckpointCarryRows(campaigns.database).unneeded_copies()


def carried_checkpoints_once() -> list[str]:
    """Run to the end; check that each preempted task went on at delta, and that its first checkpoint is removed."""
    status, rows = _run_on(CARRYING)
    cells = sorted((task, attempt, cell) for task, attempt, cell, _ in rows if task in CARRIED)
    with closing(StateFile.open(STATE)) as database:
        carries = CheckpointCarryRows(database).carries_of_tasks((1, int(task)) for task in CARRIED)
    states = [carry.state for of_attempt in carries.values() for carry in of_attempt]
    return [
        *_each_succeeded_once(status, rows),
        *check("cells of the first attempts", [row for row in cells if row[1] == "1" and row[2] != "beta"], []),
        *check("cells of the next attempts", {row[2] for row in cells if row[1] != "1"}, {"delta"}),
        *check("the carries", states, [CheckpointCarryState.OVER] * len(CARRIED)),
        *check("what is left", [*(ALICES / "beta").rglob("state"), *ALICES.rglob(".carried")], []),
        *_is_clean(CampaignState.TERMINATED, (TASKS, 0)),
    ]


def grouped_once() -> list[str]:
    """Run to the end; check that each task ran once, but the preempted task twice, in jobs of several tasks."""
    status, rows = _run_on(SAVING)
    ran = Counter(task for task, *_ in rows)
    arrays = [line for line in Path(LEDGER, "c.1").read_text().splitlines() if line.startswith("array ")]
    return [
        *_each_succeeded_once(status, rows),
        *check("what ran", ran, dict.fromkeys(map(str, range(TASKS)), 1) | {str(KILLS_JOB): 2}),
        *check("jobs of several tasks", any("group=" in line for line in arrays), True),
        *_is_clean(CampaignState.TERMINATED, (TASKS, 0)),
    ]


def whole_once() -> list[str]:
    """Run to the end; check that each used cell ran one prologue first and one epilogue last."""
    status, rows = _run_on(WHOLE)
    return [
        *_each_succeeded_once(status, rows),
        *_has_steps(rows),
        *_is_clean(CampaignState.TERMINATED, (TASKS, 0), ["c.1", "c.1.1"]),
    ]


def wound_up() -> list[str]:
    """End the cancelled campaign; check that no task ran, and that each epilogue ran once."""
    status, rows = _run_on(GONE)
    return [
        *check("the runner's end", status, 0),
        *check("the cells", {cell for _, _, cell, _ in rows}, {*CELLS}),
        *check("tasks", [task for task, *_ in rows if task.isdigit()], []),
        *_has_steps(rows),
        *_is_clean(CampaignState.CANCELLED, (0, 0), ["c.1", "c.1.1"]),
    ]


def _has_steps(rows: list[list[str]]) -> list[str]:
    """Check that each used cell ran one prologue first and one epilogue last."""
    at = {cell: [task for task, _, where, _ in rows if where == cell] for cell in CELLS}
    ran = {cell: tasks for cell, tasks in at.items() if tasks}
    steps = {cell: [one for one in tasks if not one.isdigit()] for cell, tasks in ran.items()}
    ends = {cell: [tasks[0], tasks[-1]] for cell, tasks in ran.items()}
    right = {cell: [*STEPS] for cell in ran}
    return [*check("the steps", steps, right), *check("first and last", ends, right)]


def copied_once() -> list[str]:
    """Run to the end; check that the hanging task succeeded, and that its other attempt counts as a copy."""
    found = ran_once()
    with closing(StateFile.open(STATE)) as database:
        shown = CampaignTaskRows(database).submitted_tasks(1, TASKS - 1, TASKS - 1)
    beside = [[each.outcome for each in one.copies] for one in shown]
    sent = [line for line in Path(LEDGER, "c.1").read_text().splitlines() if "copies" in line]
    return [
        *found,
        *check("the task", [one.outcome for one in shown], [TaskAttemptOutcome.SUCCESS]),
        *check("its other attempts", beside, [[TaskAttemptOutcome.COPY]]),
        *check("the ledger's copies", len(sent), 1),
    ]


def is_gone() -> list[str]:
    """End the cancelled campaign; check that none of its tasks ran."""
    status, rows = _run_on(CANCELLED)
    return [
        *check("the runner's end", status, 0),
        *check("what ran", rows, []),
        *_is_clean(CampaignState.CANCELLED, (3, 0)),
    ]


def _wipe() -> tuple[int, list[list[str]]]:
    """Run nikita without a kill; return its exit status and the jobs left at each cell."""
    KILLER.aim(())
    status = killing.run(wiping)
    return status, [sandbox.jobs(cell) for cell in CELLS]


def wiped_once() -> list[str]:
    """Run nikita again; check that it deletes and marks all waiting tasks, and that each later runs once."""
    status, left = _wipe()
    with closing(StateFile.open(STATE)) as database:
        marked = sum(len(places) for places in TaskDeletionMarkRows(database).deletion_marks().values())
    _let_start()
    return [
        *check("nikita's end", status, 0),
        *check("what waits", left, [[], []]),
        *check("what is marked", marked, TASKS),
        *check("what ran", RAN.read_text(), ""),
        *ran_once(forgotten_s=0.0),
    ]


def killed_once() -> list[str]:
    """Run nikita, then the runner; check that no task of the cancelled campaign ran."""
    status, left = _wipe()
    _let_start()
    status = status or killing.run(cycles(is_wound_up, forgotten_s=0.0))
    return [
        *check("the ends", status, 0),
        *check("what waits", left, [[], []]),
        *check("what ran", RAN.read_text(), ""),
        *_is_clean(CampaignState.CANCELLED, (TASKS, 0)),
    ]


def _let_start() -> None:
    for name in CELLS:
        (sandbox.CELLS / name / "waits").unlink()


_OUTCOMES_OF_TASKS = sa.select(ATTEMPTS.c.outcome).where(ATTEMPTS.c.task < FIRST_PROLOGUE_TASK)


def _is_clean(state: CampaignState, counts: tuple[int, int], files: Sequence[str] = ("c.1",)) -> list[str]:
    with closing(StateFile.open(STATE)) as database:
        campaigns = CampaignRows(database).all_campaigns()
        usages = CampaignStatisticsRows(database).task_usages_by_campaign()
        outcomes = [row["outcome"] for row in database.rows(_OUTCOMES_OF_TASKS)]
    counted = sum(usage.ended for of_campaign in usages.values() for usage in of_campaign)
    is_whole = state is CampaignState.TERMINATED
    found = [*dict.fromkeys((one.state, (one.ended, one.failed)) for one in campaigns)]
    there = (path.name for path in Path(CAMPAIGNS).rglob("[!.]*") if path.is_file())
    left = sorted(name for name in there if name != campaign_file_verification.NAME)
    return [
        *check("the campaign", found, [(state, counts)]),
        *(check("ends in the usage", counted, sum(map(COUNTED.__contains__, outcomes))) if is_whole else ()),
        *check("what is at the cells", [sandbox.jobs(one) for one in CELLS], [[], []]),
        *check("the folder", left, [*files]),
        *check("answers", bool(os.listdir(f"{PUBLISHED}/taken")), True),
    ]


class Scenario(NamedTuple):
    prepare: Callable[[], object]
    act: Callable[[], object]
    look: Callable[[], list[str]]
    files: tuple[str, ...]


WHOLE = cycles(is_over)
GONE = cycles(is_wound_up)
CANCELLED = cycles(is_wound_up, forgotten_s=0.0)  # what was deleted before it began has no record
WORKFLOW = cycles(is_over, most=3 * CYCLES)
FILES = cycles(is_all_home, most=3 * CYCLES)
SAVING = cycles(is_over, most=3 * CYCLES)
CARRYING = cycles(are_copies_removed, most=3 * CYCLES)
KILLED = {
    "runner": Scenario(brought, WHOLE, ran_once, RUNNERS),
    "as-user": Scenario(brought, WHOLE, ran_once, OWNERS),
    "runner-copy": Scenario(hanging, WHOLE, copied_once, RUNNERS),
    "as-user-copy": Scenario(hanging, WHOLE, copied_once, OWNERS),
    "runner-whole": Scenario(whole, WHOLE, whole_once, RUNNERS),
    "as-user-whole": Scenario(whole, WHOLE, whole_once, OWNERS),
    "runner-wind-up": Scenario(prepared, GONE, wound_up, RUNNERS),
    "as-user-wind-up": Scenario(prepared, GONE, wound_up, OWNERS),
    "nikita": Scenario(flooded, wiping, wiped_once, NIKITAS),
    "as-user-nikita": Scenario(flooded, wiping, wiped_once, OWNERS),
    "nikita-cancel": Scenario(killed, wiping, killed_once, NIKITAS),
    "rebalance": Scenario(full_there, moving, moved_once, MOVERS),
    "runner-moved": Scenario(full_there, moving, moved_once, MOVED_BY),
    "as-user-moved": Scenario(full_there, moving, moved_once, OWNERS),
    "runner-workflow": Scenario(workflow, WORKFLOW, followed_once, RUNNERS),
    "runner-files": Scenario(with_files, FILES, carried_once, RUNNERS),
    "runner-checkpoints": Scenario(saving, SAVING, saved_once, RUNNERS),
    "checkpoint-reader": Scenario(saving, SAVING, saved_once, CARRIERS),
    "runner-carries": Scenario(carrying, CARRYING, carried_checkpoints_once, RUNNERS),
    "checkpoint-carrier": Scenario(carrying, CARRYING, carried_checkpoints_once, CARRIERS),
    "runner-groups": Scenario(grouped, SAVING, grouped_once, RUNNERS),
    "as-user-groups": Scenario(grouped, SAVING, grouped_once, OWNERS),
    "runner-pull": Scenario(pulling, SAVING, grouped_once, RUNNERS),
    "as-user-pull": Scenario(pulling, SAVING, grouped_once, OWNERS),
    "group-reader": Scenario(grouped, SAVING, grouped_once, CARRIERS),
    "carriers": Scenario(with_files, FILES, carried_once, CARRIERS),
    "runner-cancel": Scenario(cancelled, CANCELLED, is_gone, RUNNERS),
    "as-user-cancel": Scenario(cancelled, CANCELLED, is_gone, OWNERS),
}


def places(one: Scenario) -> list[Place]:
    global NOTES
    NOTES = os.open("/opt/places", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    reset()
    one.prepare()
    KILLER.aim(one.files)
    assert killing.run(one.act) == 0, "the act does not end without a kill"
    lines = (line.rpartition(" ") for line in Path("/opt/places").read_text().splitlines())
    return list(dict.fromkeys((path, int(number)) for path, _, number in lines))


def kills(one: Scenario, each: int, first: int) -> Iterator[str]:
    """Kill the program at each EACHth of its lines, or at A_DAY lines; yield the place of each kill."""
    lines = places(one)
    each = each or max(1, len(lines) // A_DAY)
    for path, number in lines[first % each :: each]:
        reset()
        one.prepare()
        KILLER.aim(one.files, (path, number))
        status = killing.run(one.act)
        yield f"{Path(path).relative_to(PACKAGE)}:{number} (ended {status})"


def client_kills(each: int) -> Iterator[str]:
    """Let each client kill its caller or lose its answer; yield the client and the moment."""
    return killing.client_kills(_struck, each, ("begins", "ends", "lost"))


def _struck(number: int, moment: str) -> int:
    reset()
    brought()
    killing.VICTIM.write_text(f"0 {number} {moment}\n")
    status = killing.run(_without_end)
    killing.VICTIM.unlink()
    return status


def _without_end() -> None:
    """Run cycles, and accept that they do not finish when a client never answers."""
    try:
        WHOLE()
    except AssertionError:
        return


def late(each: int) -> Iterator[str]:
    """Delay one submission at a cluster until the next one is released; yield the submission's number."""
    for number in range(5, 11, each):
        reset()
        brought()
        killing.VICTIM.write_text(f"0 {number} late\n")
        killing.run(_a_cycle)
        killing.VICTIM.unlink()
        killing.run(_a_cycle)
        (sandbox.CELLS / "go").touch()
        time.sleep(0.3)  # a late client looks each 0.05 s
        yield f"client {number}, at the end {[sandbox.jobs(one) for one in CELLS]}"


def started(each: int) -> Iterator[str]:
    """Let tasks start at each of three moments of their move; yield the moment."""
    for moment in ("planned", "marked", "looked")[::each]:
        reset()
        full_there()
        status = killing.run(lambda: _start_when(moment))  # noqa: B023 - it is run at once
        yield f"once it is {moment} (ended {status})"


def _start_when(moment: str) -> None:
    waits = sandbox.CELLS / "beta" / "waits"
    program = rebalancer()
    seen = program.gather()
    plan = program.decide(seen)
    assert plan.advice.moves
    if moment == "planned":
        waits.unlink()
    program.apply(seen, plan)
    program.database.close()
    if moment == "marked":
        waits.unlink()
    with NikitaDaemon(_impatient(), Clock()).open_cycle() as nikita:
        listed = nikita.gather()
        plans = nikita.decide(listed)
        if moment == "looked":
            waits.unlink()
        nikita.apply(listed, plans)


def restored(each: int) -> Iterator[str]:
    """Restore the state file of an earlier cycle after a later one; yield both cycles' numbers.

    Before the first cycle the campaign is known, and no task was sent.
    """
    steps = [(early, late) for late in range(1, 5) for early in range(late)]
    for early, late in steps[::each]:
        reset()
        brought()
        status = killing.run(lambda: _restore(early, late))  # noqa: B023 - it is run at once
        yield f"cycle {early} after cycle {late} (ended {status})"


def _restore(early: int, late: int) -> None:
    for number in range(late + 1):
        program = runner()
        program.process_inbox()
        if number:
            service_cycle.run_cycle_once(program, lambda _: None)
        program.database.close()
        if number == early:
            shutil.copy(f"{HOME}/state.db", "/opt/earlier")
    shutil.copy("/opt/earlier", f"{HOME}/state.db")
    for name, slots in zip(CELLS, ("5", "2"), strict=True):  # other arrays are sent from now on
        (sandbox.CELLS / name / "slots").write_text(slots)


def torn(each: int) -> Iterator[str]:
    """Cut the end of the ledger's last line, as a power failure would; yield the number of bytes."""
    source = (PACKAGE / "campaigns/store/root_ledger.py").read_text().splitlines()
    (line,) = [n for n, text in enumerate(source, start=1) if "os.fsync(" in text]
    for cut in range(1, 12, each):
        reset()
        brought()
        KILLER.aim(OWNERS, (str(PACKAGE / "campaigns/store/root_ledger.py"), line))
        killing.run(_a_cycle)
        path = Path(LEDGER, "c.1")
        path.write_bytes(path.read_bytes()[:-cut])
        yield f"{cut} bytes less"


def _a_cycle(forgotten_s: float = 60.0) -> None:
    program = runner(forgotten_s)
    program.process_inbox()
    service_cycle.run_cycle_once(program, lambda _: None)


def full(each: int) -> Iterator[str]:
    """Fill the disk of root's ledger for a cycle; yield the ledger's folder."""
    del each
    reset()
    brought()
    Path(LEDGER).mkdir(mode=0o700)
    with memory_mounted(LEDGER, "size=4k,mode=700"):
        filler = Path(LEDGER, "filler")
        filler.write_bytes(b"x" * 4096)
        killing.run(_a_cycle)
        assert not [job for one in CELLS for job in sandbox.jobs(one)], "submitted without its line"
        filler.unlink()
        yield LEDGER


def cron(each: int) -> Iterator[str]:
    """Run the runner again and again until a campaign with inputs and outputs has ended; yield the number of runs."""
    del each
    reset()
    with_files()
    runs = 0
    while runs < CYCLES and not _is_now_all_home():
        killing.run(run_from_cron)
        runs += 1
    yield f"{runs} runs"


def carried_from_cron() -> list[str]:
    """Check the campaign's end, before and after further cycles."""
    return [*check("whether the campaign is over", _is_now_all_home(), True), *carried_once()]


def _is_now_all_home() -> bool:
    with closing(StateFile.open(STATE)) as database:
        return is_all_home(CampaignRows(database))


OTHERS = {
    "cron": cron,
    "clients": client_kills,
    "late": late,
    "restored": restored,
    "torn": torn,
    "full": full,
    "started": started,
}
SCENARIOS = (*KILLED, *OTHERS)
A_DAY = 150  # kills of a scenario in a long run; consecutive days kill at different lines


SAMPLE = {
    **{"runner": 660, "as-user": 360, "runner-cancel": 540, "as-user-cancel": 360},
    **{"nikita": 360, "as-user-nikita": 360, "nikita-cancel": 360},
    **{"rebalance": 90, "runner-moved": 900, "as-user-moved": 360},
    **{"runner-copy": 660, "as-user-copy": 360, "runner-whole": 900, "as-user-whole": 540},
    **{"runner-wind-up": 900, "as-user-wind-up": 540},
    **{"runner-files": 900, "carriers": 120, "runner-checkpoints": 900, "checkpoint-reader": 30},
    **{"clients": 26, "late": 2, "restored": 4, "torn": 16, "full": 1, "started": 1, "cron": 1},
}


def main(name: str, each: int = 1, first: int = 0) -> int:
    """Do each EACHth kill of a scenario (0: A_DAY kills), or with `sample` some kills of each scenario."""
    sandbox.mount()
    with Path("/etc/passwd").open("a") as file:
        file.write(f"gbalice:x:{ALICE}:{ALICE}::{ALICES}:/bin/sh\n")
    vars(privileged_helper_calls).update(run_program=call, start_gridbridge_as_user=start)
    vars(carry_task_files)["become_owner_program"] = become_carrier
    vars(background_input_carries)["REMOVAL_PAUSE_S"] = 0.0
    vars(background_readings)["PAUSE_S"] = 0.0
    vars(rsync)["PROGRAM"] = str(write_program(Path("/opt/rsync"), COPY))
    reset()
    StateFile.open(STATE).close()
    shutil.copy(f"{HOME}/state.db", sandbox.STEADY)
    todo = SAMPLE if name == "sample" else {name: each}
    return max(_done(one, every, first) for one, every in todo.items())


def _done(name: str, each: int, first: int) -> int:
    rounds = OTHERS[name](each) if name in OTHERS else kills(KILLED[name], each, first)
    looks = {"started": partial(ran_once, 0.0), "cron": carried_from_cron}
    look = KILLED[name].look if name in KILLED else looks.get(name, ran_once)
    return killing.report_wrong_ends(f"{name}: ", rounds, look)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
