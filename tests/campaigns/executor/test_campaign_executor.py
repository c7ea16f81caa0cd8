"""An Executor behaves as concurrent.futures documents, and its calls run as tasks of campaigns."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import gridbridge
from gridbridge.campaigns.executor import call_dispatcher, call_files
from gridbridge.campaigns.executor.call_files import ExecutorCallFolder
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.store.campaign_client import NoRunnerForRequest
from gridbridge.decisions.campaigns import executor_call_failure_detection
from gridbridge.errors import ConfigError, FileWritableByOthers
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import made_event
from tests.campaigns.cli.published_builder import publish_events
from tests.campaigns.executor import called_functions as calls
from tests.campaigns.executor.simulated_call_site import SimulatedCallSite

ROOT = Path(__file__).parents[3]
BOB = 65534
BOTH_WAYS = pytest.mark.parametrize("shares_files", [True, False], ids=["shared files", "carried files"])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCallSite]:
    monkeypatch.setattr(call_dispatcher, "FAILURE_LOOK_S", 0.1)
    monkeypatch.setattr(executor_call_failure_detection, "LATE_FILES_S", 0.3)
    with SimulatedCallSite(tmp_path, slots=3) as made:
        yield made


@BOTH_WAYS
def test_map_sends_all_calls_as_one_array_and_returns_results_in_order(
    site: SimulatedCallSite, shares_files: bool
) -> None:
    with site.executor(shares_files=shares_files) as executor:
        results = list(executor.map(calls.square, range(12)))

    assert results == [number * number for number in range(12)]
    assert (site.arrays, executor.campaigns, site.call_folders()) == ([(1, 12)], (1,), [])


def test_an_argument_of_map_may_be_the_result_of_another_call(site: SimulatedCallSite) -> None:
    with site.executor() as executor:
        results = list(
            executor.map(calls.square, (executor.submit(calls.square, number).result() for number in (2, 3)))
        )

    assert results == [16, 81]


@BOTH_WAYS
def test_an_exception_comes_with_traceback_and_last_lines_of_standard_error(
    site: SimulatedCallSite, shares_files: bool
) -> None:
    with site.executor(shares_files=shares_files) as executor:
        error = executor.submit(calls.divide_by_zero).exception()

    assert isinstance(error, ZeroDivisionError)
    assert error.__notes__ == ["Standard error of task 1.0 at beta ends with:\n  dividing\n  by zero"]
    assert "in divide_by_zero\n    return 1 / 0" in str(error.__cause__)
    assert "call.py" not in str(error.__cause__)


FAILURES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], type[BaseException], str]] = {
    "killed": (calls.kill_oneself, (), gridbridge.CallFailed, "task 1.0 at beta has no result: signal"),
    "process ended": (calls.end_process, (0,), gridbridge.CallFailed, "no result: success, exit status 0"),
    "exit status": (calls.end_process, (3,), gridbridge.CallFailed, "no result: program_error, exit status 3"),
    "sys.exit": (calls.leave, (4,), SystemExit, "4"),
    "exception that is false": (calls.raise_empty, (), calls.EmptyError, "no entry"),
    "unpicklable result": (calls.make_lock, (), TypeError, "cannot pickle"),
    "unreadable exception": (calls.raise_unreadable, (), RuntimeError, "UnreadableError: odd arguments"),
}


@pytest.mark.parametrize(("function", "arguments", "kind", "words"), FAILURES.values(), ids=FAILURES)
def test_a_call_without_a_result_ends_with_the_reason(
    site: SimulatedCallSite,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    kind: type[BaseException],
    words: str,
) -> None:
    with site.executor() as executor:
        error = executor.submit(function, *arguments).exception(timeout=60)

    assert (type(error), words in str(error)) == (kind, True)


def test_a_killed_task_shows_the_last_lines_of_its_standard_error(site: SimulatedCallSite) -> None:
    with site.executor() as executor:
        error = executor.submit(calls.kill_oneself).exception(timeout=60)

    assert getattr(error, "__notes__", []) == ["Standard error of task 1.0 at beta ends with:\n  about to die"]


def test_a_call_runs_in_the_present_folder_and_finds_modules_of_the_caller(
    site: SimulatedCallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.folder / "of_caller.py").write_text("def seven() -> int:\n    return 7\n")
    monkeypatch.syspath_prepend(str(site.folder))
    monkeypatch.chdir(site.folder)
    import of_caller  # type: ignore[import-not-found]

    with site.executor() as executor:
        assert (executor.submit(of_caller.seven).result(), executor.submit(calls.present_folder).result()) == (
            7,
            str(site.folder),
        )


@pytest.mark.root
@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["another folder", "a folder that all can write"])
def test_a_call_imports_nothing_from_a_folder_that_another_user_could_fill_at_its_host(
    site: SimulatedCallSite, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """A caller may use /tmp/work or /tmp, and another user may write into these where the call runs."""
    modules = site.folder / f"work{mode}"
    planted = f"planted_{mode}"
    _make_module(modules, planted, mode)
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.chdir(modules)

    site.slots = 0
    with site.executor() as executor:
        function = importlib.import_module(planted).planted
        imports, directory = executor.submit(function), executor.submit(calls.present_folder)
        if mode == 0o755:
            modules.rename(site.folder / "of_caller")
            _make_module(modules, planted, mode)
        site.slots = 3

        assert isinstance(imports.exception(), ModuleNotFoundError)
        assert not directory.result().startswith(str(modules))


def _make_module(folder: Path, name: str, mode: int) -> None:
    folder.mkdir()
    (folder / f"{name}.py").write_text("def planted() -> int:\n    return 9\n")
    os.chown(folder, BOB, BOB)
    folder.chmod(mode)


@pytest.mark.root
def test_a_task_runs_no_call_from_a_folder_of_another_user(site: SimulatedCallSite) -> None:
    site.slots = 0
    with site.executor() as executor:
        future = executor.submit(calls.square, 2)
        (folder,) = (site.folder / "calls").iterdir()
        os.chown(folder, BOB, BOB)
        site.slots = 3

        assert "no result: program_error, exit status 1" in str(future.exception())


def test_a_folder_that_others_can_exchange_is_refused(tmp_path: Path) -> None:
    """Otherwise they could plant outcomes, which are unpickled."""
    site = SimulatedCallSite(tmp_path, slots=1)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o770)

    with pytest.raises(FileWritableByOthers, match="/shared has mode 0770"):
        site.executor(folder=f"{tmp_path}/shared")
    assert [] == [*(tmp_path / "shared").iterdir()]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_an_outcome_that_is_no_file_is_an_exception_and_removed(tmp_path: Path, make: Callable[[str], None]) -> None:
    folder = ExecutorCallFolder(str(tmp_path), Clock(), is_shared=False)
    make(f"{folder.path}/results/0")

    assert isinstance(folder.read_and_remove_outcome(0).error, OSError)
    assert [] == folder.list_calls_with_outcome()


def test_a_preempted_call_runs_again_as_the_campaign_retries_it(site: SimulatedCallSite) -> None:
    go = site.folder / "go"
    with site.executor() as executor:
        future = executor.submit(calls.wait_for_file, str(go))
        site.until(Path(f"{go}.begun").exists)
        site.preempted.set()
        site.until(lambda: len(Path(f"{go}.begun").read_text().splitlines()) == 2)
        site.until(future.running)
        go.touch()

    assert future.result() == 2


def test_a_future_can_be_cancelled_until_its_call_starts(site: SimulatedCallSite) -> None:
    go = site.folder / "go"
    with site.executor() as executor:
        begun = [executor.submit(calls.wait_for_file, str(go)) for _ in range(site.slots)]
        site.until(lambda: all(future.running() for future in begun))
        waiting = executor.submit(calls.square, 3)
        site.until(lambda: len(site.arrays) == 2)
        cancelled = waiting.cancel(), begun[0].cancel()
        done = futures.wait([waiting], timeout=10).done
        go.touch()

    assert (cancelled, done, waiting.cancelled(), begun[0].done()) == ((True, False), {waiting}, True, True)


def test_shutdown_cancels_waiting_calls_and_the_campaign_that_has_them(site: SimulatedCallSite) -> None:
    go = site.folder / "go"
    executor = site.executor()
    all_calls = [executor.submit(calls.wait_for_file, str(go)) for _ in range(20)]
    site.until(lambda: all_calls[0].running())
    threading.Timer(0.5, go.touch).start()
    executor.shutdown(cancel_futures=True)
    (campaign,) = campaign_client.published_campaigns(site.paths.published)

    assert all(future.done() for future in all_calls)
    assert sum(future.cancelled() for future in all_calls) >= 20 - site.slots
    assert (str(campaign.state), site.call_folders()) == ("cancelled", [])
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(calls.square, 1)


def test_calls_after_the_end_of_a_campaign_begin_another(site: SimulatedCallSite) -> None:
    with site.executor() as executor:
        first = executor.submit(calls.square, 2).result()
        site.until(lambda: not campaign_client.published_campaigns(site.paths.published)[0].state.is_alive)
        second = executor.submit(calls.square, 3).result()

    assert (first, second, executor.campaigns, site.arrays) == (4, 9, (1, 2), [(1, 1), (2, 1)])


def test_two_executors_at_once_have_a_campaign_each(site: SimulatedCallSite) -> None:
    with site.executor() as left, site.executor() as right:
        results = [*left.map(calls.square, range(3))], [*right.map(calls.square, range(3, 6))]

    assert results == ([0, 1, 4], [9, 16, 25])
    assert {*left.campaigns, *right.campaigns} == {1, 2}


def test_a_campaign_that_its_owner_cancels_ends_the_futures(site: SimulatedCallSite) -> None:
    with site.executor() as executor:
        running = executor.submit(calls.wait_for_file, str(site.folder / "never"))
        site.until(running.running)
        campaign_client.ask_runner_to_act_on_campaigns(CampaignOwnerRequestVerb.CANCEL, (1,), site.paths)
        error = running.exception(timeout=60)

    assert isinstance(error, gridbridge.CallFailed)


def test_calls_that_no_runner_takes_end_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_client, "ANSWER_S", 0.1)
    site = SimulatedCallSite(tmp_path, slots=1)
    for name in ("campaigns", "published"):
        (tmp_path / name).mkdir()
    with site.executor() as executor:
        error = executor.submit(calls.square, 2).exception()

    assert isinstance(error, NoRunnerForRequest)
    assert site.call_folders() == []


def test_a_removed_folder_of_calls_ends_all_futures(site: SimulatedCallSite) -> None:
    with site.executor() as executor:
        future = executor.submit(calls.wait_for_file, str(site.folder / "never"))
        site.until(future.running)
        (site.folder / "calls").rename(site.folder / "away")

        assert isinstance(future.exception(timeout=60), FileNotFoundError)


WRONG = {
    "unknown cluster": ({"clusters": ["gamma"]}, "no cluster gamma here; the clusters are beta"),
    "wrong value": ({"walltime": "soon"}, 'Executor:1: walltime = "soon"'),
    "unknown key": ({"wall": 1}, "unknown key; walltime is the nearest"),
    "own key": ({"exec_file": "echo"}, "exec_file: set by Executor itself"),
}


@pytest.mark.parametrize(("values", "words"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused_before_anything_is_made(
    tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    site = SimulatedCallSite(tmp_path, slots=1)

    with pytest.raises(ConfigError) as refused:
        site.executor(**values)

    assert (words in str(refused.value), (tmp_path / "calls").exists()) == (True, False)


def test_functions_of_the_program_itself_need_cloudpickle(
    site: SimulatedCallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own() -> int:
        return 5

    own.__module__, own.__qualname__ = "__main__", "own"
    monkeypatch.setattr(sys.modules["__main__"], "own", own, raising=False)
    monkeypatch.setattr(call_files, "cloudpickle", None)
    with site.executor() as executor:
        error = executor.submit(own).exception()

    assert "own belongs to the program itself" in str(error)


def test_cloudpickle_sends_local_functions_by_value(site: SimulatedCallSite) -> None:
    pytest.importorskip("cloudpickle")
    offset = 40
    with site.executor() as executor:
        result = executor.submit(lambda number: number + offset, 2).result()

    assert result == 42


PROGRAM = """\
import os, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
import gridbridge
from gridbridge.model.fixed_paths import FixedPaths
from tests.campaigns.executor import called_functions as calls
folder = {folder!r}
paths = FixedPaths(configuration=folder + "/gridbridge.toml", published=folder + "/published",
                   campaigns=folder + "/campaigns", admission=folder + "/admission")
executor = gridbridge.Executor(paths=paths, folder=folder + "/calls", exec_directory=folder + "/home")
{body}
"""
BODIES = {
    "exit waits": ("executor.submit(calls.square, 6).add_done_callback(lambda f: print(f.result()))", "36\n"),
    "fork": (
        "f = executor.submit(calls.square, 5)\n"
        "if not os.fork():\n"
        "    try: executor.submit(calls.square, 1)\n"
        "    except RuntimeError as error: print(error, flush=True)\n"
        "    executor.shutdown(); sys.exit()\n"
        "os.wait(); print(f.result())",
        "this Executor belongs to process ...; expected a new Executor after a fork\n25\n",
    ),
}


def _run_program(site: SimulatedCallSite, body: str) -> subprocess.Popen[str]:
    program = PROGRAM.format(root=str(ROOT), folder=str(site.folder), body=body)
    return subprocess.Popen((sys.executable, "-c", program), stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("body", "printed"), BODIES.values(), ids=BODIES)
def test_the_exit_of_the_interpreter_waits_for_calls_and_a_forked_process_disturbs_none(
    site: SimulatedCallSite, body: str, printed: str
) -> None:
    ran = _run_program(site, body)
    output, _ = ran.communicate(timeout=60)

    assert (output.replace(str(ran.pid), "..."), ran.returncode, site.call_folders()) == (printed, 0, [])


def test_an_interrupted_program_waits_for_its_calls(site: SimulatedCallSite) -> None:
    go = site.folder / "go"
    ran = _run_program(site, f"executor.submit(calls.wait_for_file, {str(go)!r}).result()")
    site.until(Path(f"{go}.begun").exists)
    ran.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        ran.wait(1)
    go.touch()
    ran.communicate(timeout=60)

    assert (ran.returncode, site.call_folders()) == (-signal.SIGINT, [])


def _interrupt_until_end(ran: "subprocess.Popen[str]") -> None:
    """Send SIGINT again and again; the second or third ends the wait at the exit of the interpreter."""
    while ran.poll() is None:
        ran.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            ran.wait(0.3)


@pytest.mark.parametrize("end", [subprocess.Popen.kill, _interrupt_until_end], ids=["killed", "interrupted"])
def test_the_calls_of_a_killed_program_go_on_in_their_campaign(
    site: SimulatedCallSite, end: Callable[["subprocess.Popen[str]"], None]
) -> None:
    go = site.folder / "go"
    ran = _run_program(site, f"executor.submit(calls.wait_for_file, {str(go)!r}).result()")
    site.until(Path(f"{go}.begun").exists)
    end(ran)
    ran.communicate()
    go.touch()
    site.until(lambda: not campaign_client.published_campaigns(site.paths.published)[0].state.is_alive)
    (folder,) = site.call_folders()

    assert os.listdir(site.folder / "calls" / folder / "results") == ["0"]


def test_old_folders_of_ended_programs_are_removed(site: SimulatedCallSite) -> None:
    """A folder is old if nothing in it has changed for 30 days."""
    living, parent = site.executor(), site.folder / "calls"
    (kept,) = site.call_folders()
    for name in ("executor.killed", "executor.young", "own"):
        (parent / name / "results").mkdir(parents=True)
        (parent / name / "lock").touch()
    long_ago = time.time() - call_files.KEPT_S - 60
    for path in (*parent.glob("*/*"), *parent.glob("*")):
        os.utime(path, (long_ago, long_ago))
    (parent / "executor.young/results/0").touch()
    site.executor().shutdown()

    assert {*site.call_folders()} == {kept, "executor.young", "own"}
    living.shutdown()


def test_a_call_that_has_no_open_cluster_is_logged_once(
    site: SimulatedCallSite, caplog: pytest.LogCaptureFixture
) -> None:
    go = site.folder / "go"
    codes = (CampaignEventCode.NO_CLUSTER, CampaignEventCode.EXIT_ERROR)
    with site.executor() as executor:
        future = executor.submit(calls.wait_for_file, str(go))
        site.until(future.running)
        of = {"kind": CampaignEventSubject.CAMPAIGN, "campaign": 1}
        events = [made_event(number=number, code=code, **of) for number, code in enumerate(codes, 1)]
        publish_events(site.folder / "published", *events, made_event(number=3, code=codes[0], **of | {"campaign": 9}))
        site.until(lambda: "no cluster left" in caplog.text)
        publish_events(site.folder / "published", *events)
        go.touch()

    assert [record.getMessage()[:35] for record in caplog.records] == ["Executor: campaign 1: some waiting "]


def test_import_gridbridge_loads_nothing_for_an_executor() -> None:
    script = "import gridbridge, sys; print(*sorted(name for name in sys.modules if name.startswith('gridbridge')))"
    ran = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=True, cwd=ROOT)

    assert ran.stdout.split() == ["gridbridge"]
