"""Carries out send-arrays: submits arrays on hold, records their ids in root's ledger, releases them.

All intents are recorded before the first submission, and all job ids before the release, so that after a kill the next
call knows all running tasks. An array with a recorded job id is not submitted again. An array whose answer was lost is
found by its submission name.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gridbridge.campaigns.store.campaign_file_verification import RootVerifiedCampaignFiles
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.errors import ArrayTasksAlreadyInLedger, GridbridgeError
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_array_arguments import ArraySendProgress, AsUserArrayArguments, is_short_ascii_number
from gridbridge.privileged.as_user_refusals_and_user_switch import OwnerAccountUnavailable
from gridbridge.privileged.campaign_array_job_spec import VerifiedCampaignTasks
from gridbridge.privileged.campaign_owner_cluster_calls import CampaignOwnerClusterCalls
from gridbridge.privileged.earlier_attempts_ended_check import require_earlier_attempts_ended
from gridbridge.privileged.owner_worker import Answers, CampaignOwnerWorker, OwnerWorkerLoss

INTENDS_S = 10.0  # time limit for recording intents and for queries about earlier attempts
BEGINS_S = 20.0  # time limit for submissions; releases follow before the service's timeout
# after these errors no further array is sent
LAST_ERRORS = (OwnerWorkerLoss, ArrayTasksAlreadyInLedger, OwnerAccountUnavailable)
SUBMIT, RELEASE, RELEASE_OLD = "submit", "release", "release-old"


def send_campaign_arrays(order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks) -> Iterator[str]:
    """Send arrays; yield status, job id and error of each begun array; a later call may send the rest."""
    content = None
    if not all(ledger.job_id_of_array(array.array) for array in order.arrays):
        brought = RootVerifiedCampaignFiles(order.campaign)
        as_user_refusals_and_user_switch.require_ordinary_account(order.config, brought.file, brought.uid)
        brought.record_file_in_ledger(ledger)
        content = VerifiedCampaignTasks(order, brought, ledger)
    as_user_refusals_and_user_switch.require_ordinary_account(order.config, order.file, ledger.uid)
    sending = CampaignArraySender(order, ledger, content)
    sent = sending.submit_held_arrays()
    sending.release_submitted_arrays(sent)
    return (sent_array.printed_result_line() for sent_array in sent)


class CampaignArraySender:
    """The arrays of one request send-arrays; root records each step in its ledger."""

    def __init__(
        self, order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks, content: VerifiedCampaignTasks | None
    ) -> None:
        self._order = order
        self._ledger = ledger
        self._content = content
        self._worker = CampaignOwnerWorker(ledger.uid, self._owner_request_handler)
        self._began = time.monotonic()

    def submit_held_arrays(self) -> list[ArraySendProgress]:
        """Record intents, submit the arrays on hold, record the job ids, and return the begun arrays."""
        sent_arrays = [ArraySendProgress(array, index) for index, array in enumerate(self._order.arrays)]
        intended: list[ArraySendProgress] = []
        with self._write_ledger_records_together(intended):
            intended.extend(self._act_on_arrays_until_time_limit(sent_arrays, self._record_array_intent, INTENDS_S))
        begun = list(self._act_on_arrays_until_time_limit(intended, self._submit_or_adopt_array, BEGINS_S))
        with self._write_ledger_records_together(begun):
            self._record_job_ids(begun, intended[len(begun) :])
        return begun

    def _act_on_arrays_until_time_limit(
        self, arrays: list[ArraySendProgress], act: Callable[[ArraySendProgress], None], limit_s: float
    ) -> Iterator[ArraySendProgress]:
        """Call `act` for each array, and then yield the array; stop at the time limit or a fatal error."""
        for sent in arrays:
            try:
                if not sent.error:
                    act(sent)
            except (GridbridgeError, OSError) as error:
                sent.error = error
            yield sent
            if isinstance(sent.error, LAST_ERRORS) or time.monotonic() > self._began + limit_s:
                return

    @contextmanager
    def _write_ledger_records_together(self, arrays: list[ArraySendProgress]) -> Iterator[None]:
        """Write the ledger records of a `with` block together; a failed write is the error of each array."""
        try:
            with self._ledger.write_lines_at_once():
                yield
        except OSError as error:
            for sent in arrays:
                sent.job, sent.error = "", sent.error or error

    def _record_array_intent(self, progress: ArraySendProgress) -> None:
        number, ledger, order = progress.array.array, self._ledger, self._order
        progress.job = ledger.job_id_of_array(number)
        if not (progress.job or order.is_of_copies):
            require_earlier_attempts_ended(order, ledger, progress.place)
        if not progress.job:
            as_user_refusals_and_user_switch.require_existing_account(ledger.uid)
        ledger.record_array(number, order.cluster, order.tasks[progress.place], order.is_of_copies, order.settings)
        progress.is_new = not (progress.job or ledger.may_be_submitted_twice(number))

    def _submit_or_adopt_array(self, progress: ArraySendProgress) -> None:
        """Submit an array on hold, or adopt the job that an earlier call submitted."""
        if progress.job:
            return
        job = self._worker.send_request_to_owner_process(SUBMIT, str(progress.place), str(int(progress.is_new)))
        if not is_short_ascii_number(job):
            raise GridbridgeError(f"{job[:40]!r} is not a job id")
        progress.job = job

    def _record_job_ids(self, begun_arrays: list[ArraySendProgress], unbegun: list[ArraySendProgress]) -> None:
        """Record new job ids, and withdraw the intents of arrays that were not submitted."""
        for sent in begun_arrays:
            if sent.job and not self._ledger.job_id_of_array(sent.array.array):
                self._ledger.record_job_id_of_array(sent.array.array, sent.job)
        for sent in unbegun:
            if sent.is_new and not sent.error:
                self._ledger.withdraw_array(sent.array.array)

    def release_submitted_arrays(self, sent_arrays: list[ArraySendProgress]) -> None:
        """Release the submitted arrays; a single call releases all new arrays."""
        self._ledger.require_lead()
        ready = [sent_array for sent_array in sent_arrays if sent_array.job and not sent_array.error]
        new = [sent_array for sent_array in ready if sent_array.is_new]
        if new:
            self._ask_and_record_error(new, RELEASE, *(sent_array.job for sent_array in new))
        for sent_array in (sent_array for sent_array in ready if not sent_array.is_new):
            repeated = int(self._ledger.may_be_submitted_twice(sent_array.array.array))
            self._ask_and_record_error([sent_array], RELEASE_OLD, str(sent_array.array), sent_array.job, str(repeated))

    def _ask_and_record_error(self, sent_arrays: list[ArraySendProgress], *words: str) -> None:
        try:
            self._worker.send_request_to_owner_process(*words)
        except (GridbridgeError, OSError) as error:
            for sent_array in sent_arrays:
                sent_array.error = error

    def _owner_request_handler(self, person: str) -> Answers:
        site = CampaignOwnerClusterCalls(self._order, person)

        def answer_owner_request(words: list[str]) -> str:
            verb, *arguments = words
            if verb == SUBMIT:
                array, index = self._order.arrays[int(arguments[0])], int(arguments[0])
                # an earlier call may have submitted the array
                if arguments[1] == "0" and (job := site.find_held_array(str(array))):
                    return job
                assert self._content
                return site.submit_held_array(
                    self._content.array_job_spec(array, self._content.script_tasks_of_array(index), person)
                )
            if verb == RELEASE:
                site.release_new_arrays(arguments)
            else:
                site.release_or_delete_array(arguments[0], arguments[1], is_repeated=arguments[2] == "1")
            return ""

        return answer_owner_request
