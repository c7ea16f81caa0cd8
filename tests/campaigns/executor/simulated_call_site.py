"""A site with the real intake of campaigns, whose tasks run as processes of this machine."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from gridbridge.campaigns.executor.campaign_executor import Executor
from gridbridge.campaigns.store.campaign_files_of_owners import read_inputs_of_own_tasks, read_own_campaign_file
from gridbridge.campaigns.store.published_campaign_files import publish_campaign_task_file
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignTask
from gridbridge.model.fixed_paths import FixedPaths
from tests.campaigns.cli.published_builder import make_shown_campaign, publish_campaigns
from tests.campaigns.runner.intake_site import IntakeSite

LIMIT_S = 60.0


class _TaskRun:
    """A process that runs one attempt of a task in a folder of its own."""

    def __init__(self, site: "SimulatedCallSite", campaign: int, task: int, attempt: int) -> None:
        header, lines = read_own_campaign_file(campaign, site.paths.campaigns)
        self.campaign, self.task, self.attempt = campaign, task, attempt
        self.outputs_to = header["outputs_to"]
        self.line = lines[task]
        self.folder = site.folder / f"attempts/{campaign}.{task}.{attempt}"
        (self.folder / "results").mkdir(parents=True)
        for file in read_inputs_of_own_tasks(campaign, {task}, site.paths.campaigns).get(task, ()):
            (self.folder / file.name).parent.mkdir(exist_ok=True)
            shutil.copy(file.path, self.folder / file.name)
        names = {"CIGRI_JOB_ID": f"{campaign}.{task}", "CIGRI_CLUSTER": "beta"}
        script = f'{header["clusters"]["beta"]["exec_file"]} "$@"'
        outputs = site.folder / f"home/campaign.{campaign}"
        outputs.mkdir(exist_ok=True)
        with (outputs / f"{task}.{attempt}.err").open("w") as errors:
            self.process = subprocess.Popen(
                ("sh", "-c", script, "sh", self.line), cwd=self.folder, stderr=errors, env={**os.environ, **names}
            )

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def bring_outputs(self) -> None:
        if self.outputs_to and (self.folder / f"results/{self.line}").exists():
            os.rename(self.folder / f"results/{self.line}", f"{self.outputs_to}/results/{self.line}")

    def published(self) -> PublishedCampaignTask:
        status = self.process.returncode
        outcome = TaskAttemptOutcome.SIGNAL if status < 0 else TaskAttemptOutcome.PROGRAM_ERROR
        return PublishedCampaignTask(
            number=self.task,
            attempt=self.attempt,
            is_waiting=False,
            cluster="beta",
            outcome=outcome if status else TaskAttemptOutcome.SUCCESS,
            exit_status=max(0, status),
        )


class SimulatedCallSite:
    """Runs tasks at cluster beta in the order of their numbers, at most `slots` at once; a thread is the runner."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.folder = folder
        self.slots = slots
        self.arrays: list[tuple[int, int]] = []  # campaign and number of tasks of each campaign file
        self.preempted = threading.Event()  # set: the running tasks are killed once, and run again
        self._runs: dict[tuple[int, int], _TaskRun] = {}
        self._ended: dict[tuple[int, int], PublishedCampaignTask] = {}
        self._is_ready, self._is_stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        (folder / "home").mkdir()
        (folder / "gridbridge.toml").write_text(
            f'[site]\ncluster = "beta"\n[cluster.beta]\nkind = "embedded"\nfolder = "{folder}/beta"\n'
        )
        self.paths = FixedPaths(
            configuration=f"{folder}/gridbridge.toml",
            published=f"{folder}/published",
            campaigns=f"{folder}/campaigns",
            admission=f"{folder}/admission",
        )

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped.set()
        self._thread.join()
        for run in self._runs.values():
            run.process.kill()
            run.process.wait()

    def executor(self, **values: Any) -> Executor:
        values = {"folder": f"{self.folder}/calls", "exec_directory": f"{self.folder}/home"} | values
        return Executor(paths=self.paths, **values)

    def call_folders(self) -> list[str]:
        return os.listdir(self.folder / "calls")

    def until(self, look: Callable[[], object]) -> None:
        for _ in range(int(LIMIT_S / 0.02)):
            if look():
                return
            threading.Event().wait(0.02)
        raise AssertionError(f"waited for {look}: {self.arrays}, {self._ended}")

    def _run(self) -> None:
        self._site = IntakeSite(self.folder)
        self._is_ready.set()
        while not self._is_stopped.wait(0.02):
            self._site.intake.process_inbox_files()
            self._record_ends()
            for campaign in self._site.campaigns.all_campaigns():
                self._note_new_tasks(campaign.number, campaign.tasks)
                if campaign.state is CampaignState.IN_TREATMENT:
                    self._start_tasks(campaign.number, campaign.tasks)
            self._publish()
        self._site.database.close()

    def _note_new_tasks(self, campaign: int, tasks: int) -> None:
        before = sum(size for number, size in self.arrays if number == campaign)
        if tasks > before:
            self.arrays.append((campaign, tasks - before))

    def _start_tasks(self, campaign: int, tasks: int) -> None:
        for task in range(tasks):
            key = campaign, task
            if len(self._runs) < self.slots and key not in self._runs and key not in self._ended:
                self._runs[key] = _TaskRun(self, campaign, task, attempt=1)

    def _record_ends(self) -> None:
        if self.preempted.is_set():
            for key, run in self._runs.items():
                run.process.send_signal(signal.SIGKILL)
                run.process.wait()
                self._runs[key] = _TaskRun(self, *key, attempt=run.attempt + 1)
            self.preempted.clear()
        for key, run in [*self._runs.items()]:
            if run.is_over:
                run.bring_outputs()
                self._ended[key] = self._runs.pop(key).published()

    def _publish(self) -> None:
        shown = []
        for campaign in self._site.campaigns.all_campaigns():
            tasks = [task for (number, _), task in sorted(self._ended.items()) if number == campaign.number]
            if len(tasks) == campaign.tasks and campaign.state.is_alive:
                self._site.end_campaign(campaign.number, 0, CampaignState.TERMINATED)
            published = str(self.folder / "published")
            publish_campaign_task_file(campaign.number, 0, tasks, published)
            counts = {"tasks": campaign.tasks, "ended": len(tasks), "failed": sum(task.has_failed for task in tasks)}
            shown.append(make_shown_campaign(number=campaign.number, state=campaign.state, **counts))
        publish_campaigns(self.folder / "published", *shown)
