"""Makes the job spec of a campaign's array from the tasks in the campaign's file."""

import json

from gridbridge.batch.campaign_array_script import CampaignArrayScriptTask, write_campaign_array_script
from gridbridge.campaigns.store.campaign_file_verification import RootVerifiedCampaignFiles
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import ParseError, SpeculativeCopyRefusal
from gridbridge.model.campaigns.campaign_file_and_array_names import UNIQUE, CampaignArrayId, split_task_parameters
from gridbridge.model.campaigns.host_property_request_parser import (
    parse_alternative_host_properties,
    parse_required_host_properties,
)
from gridbridge.model.campaigns.task_file_patterns import has_placeholder, output_names_of_task
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    Attempts,
    is_prologue_or_epilogue_task,
    parse_attempt_ranges,
    split_into_groups,
)
from gridbridge.model.campaigns.task_input_files import CARRIED_INPUTS, END_OF_PARAMETERS, parse_inputs_of_task_line
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import AsUserRequestRefusal
from gridbridge.privileged.campaign_prologue_and_epilogue_tasks import header_of_array, prologue_or_epilogue_tasks

HEADER_KEYS = ("project", "queue", "environment", "properties")
LIMITS = {"slots": 100_000, "walltime_s": 31_536_000, "side_by_side": 1000}
MOST_OF_TASK, MOST_OF_ARRAY = 512 << 10, 256 << 20  # limits, in bytes, of the parameters of one task and of one array
ODD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # invalid campaign files raise these exceptions
Header = dict[str, object]


class VerifiedCampaignTasks:
    """The tasks of the arrays in one request, from a verified campaign file.

    Root only finds the tasks' lines; the owner's process, which has a time limit, splits them into words.
    """

    def __init__(
        self, order: AsUserArrayArguments, brought: RootVerifiedCampaignFiles, ledger: RootLedgerOfSubmittedTasks
    ) -> None:
        """Read the file; raise AsUserRequestRefusal if invalid, SpeculativeCopyRefusal for a forbidden copy."""
        try:
            header = json.loads(brought.header_line())
            outputs = tuple(map(str, header.get("outputs") or ()))
            self._output_patterns = outputs if any(map(has_placeholder, outputs)) else ()
            saved = tuple(map(str, header.get("checkpoint_files") or ()))
            self._checkpoint_patterns = saved if any(map(has_placeholder, saved)) else ()
            whole = {key: str(header[key]) for key in ("name", UNIQUE)}
            whole["outputs"] = "" if self._output_patterns else " ".join(outputs)
            whole["checkpoints"] = "" if self._checkpoint_patterns else " ".join(saved)
            interval_s = max(1, int(header.get("checkpoint_s") or order.checkpoint_s))
            signal = {"signal": str(header.get("checkpoint_signal")), "checkpoint_s": str(interval_s)}
            self._checkpoint_settings = signal if saved else {}
            self._header: Header = {"side_by_side": 1} | header["clusters"][order.cluster] | whole
            self.directory = str(self._header.get("exec_directory", ""))  # where the tasks work
            is_declared = header.get("is_idempotent") is True or bool(outputs)
            self._asked = tuple(map(parse_attempt_ranges, order.tasks))
            self._lines = _read_task_lines(self._asked, brought, ledger)
            self._step_tasks = {
                index: prologue_or_epilogue_tasks(order, header["clusters"], attempts)
                for index, attempts in enumerate(self._asked)
                if is_prologue_or_epilogue_task(attempts[0][0])
            }
        except (*ODD, ParseError) as error:
            raise AsUserRequestRefusal(f"{order.file}: {error!r}") from error
        if order.is_of_copies and not is_declared:
            raise SpeculativeCopyRefusal(f"{order.file}: the campaign is declared neither idempotent nor with outputs")
        self._order, self._ledger = order, ledger

    def script_tasks_of_array(self, index: int) -> tuple[CampaignArrayScriptTask, ...]:
        """Return an array's tasks; root's ledger has the attempt number of each speculative copy."""
        if script_tasks := self._step_tasks.get(index):
            return script_tasks
        script_tasks = tuple(self._task_from_campaign_file_line(n, k, self._lines[n]) for n, k in self._asked[index])
        if self._order.is_of_copies:
            copies = self._ledger.count_copies_before(self._order.arrays[index].array)
            for task in script_tasks:
                task.copy = copies.get(task.number, 0) + 1
        return script_tasks

    def _task_from_campaign_file_line(self, number: int, attempt: int, line: bytes) -> CampaignArrayScriptTask:
        text = line.decode("utf-8", "surrogateescape")
        parameters = text.partition(END_OF_PARAMETERS)[0]
        task = CampaignArrayScriptTask(number, attempt, split_task_parameters(parameters))
        try:
            task.inputs = parse_inputs_of_task_line(text)
            task.outputs = output_names_of_task(self._output_patterns, parameters)
            task.checkpoints = output_names_of_task(self._checkpoint_patterns, parameters)
        except (*ODD, ParseError) as error:
            raise AsUserRequestRefusal(f"task {number}: {error}") from error
        return task

    def array_job_spec(
        self, array: CampaignArrayId, tasks: tuple[CampaignArrayScriptTask, ...], person: str
    ) -> JobSpec:
        header, section = header_of_array(self._header, tasks), self._order.section
        text = {key: str(header.get(key, "")) for key in HEADER_KEYS}
        amounts = {key: _checked_amount_in_header(header, key, most) for key, most in LIMITS.items()}
        assert isinstance(section, dict)
        settings = self._array_job_settings(header, person, amounts, array.site, is_remote=bool(section.get("ssh")))
        begin_s, wait_s = map(str, self._order.group[1:])
        settings |= {"array": str(array.array), "group_s": begin_s, "wait_s": wait_s}
        request = JobRequest(
            hard=(("h_rt", str(amounts["walltime_s"])), *parse_required_host_properties(text["properties"])),
            either=parse_alternative_host_properties(text["properties"]),
            types=("besteffort",) if _is_besteffort(header, is_ordinary=self._order.is_ordinary) else (),
            project=text["project"],
            targets=text["queue"],
            groups=_requested_nodes_and_slots(header, amounts["slots"]),
        )
        return JobSpec(
            transfer=str(array),
            request=request,
            script=write_campaign_array_script(settings, tasks, self._order.group[0]),
            shell=str(section.get("shell", "/bin/sh")),
            pe=text["environment"],
            slots=amounts["slots"],
            tasks=len(split_into_groups(tasks, self._order.group[0])),
        )

    def _array_job_settings(
        self, header: Header, person: str, amounts: dict[str, int], site: str, *, is_remote: bool
    ) -> dict[str, str]:
        walltime_s = amounts["walltime_s"]
        if "exec_file" not in header:
            raise AsUserRequestRefusal("key exec_file is missing")
        return {
            "campaign": str(self._order.campaign),
            "token": f"{site}.{header[UNIQUE]}",
            "cluster": self._order.cluster,
            "user": person,
            "slots": str(amounts["slots"] // amounts["side_by_side"]),
            "lanes": str(amounts["side_by_side"]),
            "walltime": f"{walltime_s // 3600:02}:{walltime_s // 60 % 60:02}:{walltime_s % 60:02}",
            "walltime_s": str(walltime_s),
            "directory": self.directory,
            "exec": str(header["exec_file"]),
            "outputs": str(header["outputs"]),
            "checkpoints": str(header["checkpoints"]),
            **self._checkpoint_settings,
            "carried": f"/{CARRIED_INPUTS}" if is_remote else "",
        }


def _is_besteffort(header: Header, *, is_ordinary: bool) -> bool:
    return bool(header.get("is_besteffort") or (header.get("is_semi_besteffort") and not is_ordinary))


def _read_task_lines(
    attempts: tuple[Attempts, ...], brought: RootVerifiedCampaignFiles, ledger: RootLedgerOfSubmittedTasks
) -> dict[int, bytes]:
    """Return each task's line of parameters.

    Raises AsUserRequestRefusal for too long lines, and KeyError for a missing line.
    """
    numbers = [[task for task, _ in pairs if not is_prologue_or_epilogue_task(task)] for pairs in attempts]
    lines = brought.parameters_of_tasks({task for array_tasks in numbers for task in array_tasks}, ledger)
    for array_tasks in numbers:
        sizes = [len(lines[task]) for task in array_tasks]
        if max(sizes, default=0) > MOST_OF_TASK or sum(sizes) > MOST_OF_ARRAY:
            most = f"{MOST_OF_TASK >> 10} KB a task and {MOST_OF_ARRAY >> 20} MB an array"
            raise AsUserRequestRefusal(f"{brought.file}: a task's parameters are too large; expected at most {most}")
    return lines


def _requested_nodes_and_slots(header: Header, slots: int) -> tuple[tuple[int, int], ...]:
    nodes = header.get("nodes")
    if not isinstance(nodes, int) or nodes < 0 or (nodes and slots % nodes):
        raise AsUserRequestRefusal(f"nodes = {nodes!r}; expected a divisor of {slots} slots")
    return ((nodes, slots // nodes),) if nodes else ((0, slots),)


def _checked_amount_in_header(header: Header, key: str, most: int) -> int:
    value = header.get(key)
    if not isinstance(value, int) or not 0 < value <= most:
        raise AsUserRequestRefusal(f"{key} = {value!r}; expected 1 to {most}")
    return value
