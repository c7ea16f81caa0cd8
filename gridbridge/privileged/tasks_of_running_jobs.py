"""Carries out add-tasks: gives further tasks to running jobs of an array, as the campaign's owner.

Root's ledger has the tasks before a job can get them, and refuses a task that was ever sent. A process of the owner
then writes a file into the campaign's folder at the cluster, from which group.sh takes the tasks. A file is written at
most once; if that fails, the job never gets these tasks, and the service sends them again after the job's end.
"""

import os
import pwd

from gridbridge.batch.campaign_array_script import write_further_tasks
from gridbridge.campaigns.store.campaign_file_verification import RootVerifiedCampaignFiles
from gridbridge.campaigns.store.root_ledger import RootLedgerOfSubmittedTasks
from gridbridge.model.campaigns.campaign_file_and_array_names import campaign_folder_at_cluster
from gridbridge.model.transfer_route import BARE
from gridbridge.privileged import as_user_refusals_and_user_switch
from gridbridge.privileged.as_user_array_arguments import AsUserArrayArguments
from gridbridge.privileged.campaign_array_job_spec import VerifiedCampaignTasks
from gridbridge.privileged.owner_worker import Answers, CampaignOwnerWorker
from gridbridge.shell import ssh

WRITES_S = 20.0  # time limit of writing the files
# The job has made its record in the same folder, so that a folder without the record belongs to something else.
WRITE = """\
cd -P -- "$1" && [ -O . ] && umask 077 || exit
shift
while [ "$#" -gt 0 ]; do
    head -c "$3" >".$2" || exit
    if [ -f "$1" ]; then mv -T -- ".$2" "$2" || exit; else rm -- ".$2"; fi
    shift 3
done
"""


def add_tasks_to_running_jobs(order: AsUserArrayArguments, ledger: RootLedgerOfSubmittedTasks) -> str:
    """Record the tasks in the ledger, then write the files; return an empty answer."""
    brought = RootVerifiedCampaignFiles(order.campaign)
    as_user_refusals_and_user_switch.require_ordinary_account(order.config, brought.file, brought.uid)
    brought.record_file_in_ledger(ledger)
    as_user_refusals_and_user_switch.require_existing_account(ledger.uid)
    content = VerifiedCampaignTasks(order, brought, ledger)
    with ledger.write_lines_at_once():
        for array, place, tasks in zip(order.arrays, order.places, order.tasks, strict=True):
            ledger.record_tasks_of_running_job(array.array, order.cluster, place, tasks)
    worker = CampaignOwnerWorker(ledger.uid, lambda person: _further_tasks_writer(order, content, person))
    return worker.send_request_to_owner_process("write")


def _further_tasks_writer(order: AsUserArrayArguments, content: VerifiedCampaignTasks, person: str) -> Answers:
    far, _ = order.access_and_account_of_user(person)
    home = "." if far.login else pwd.getpwuid(os.geteuid()).pw_dir
    folder = campaign_folder_at_cluster(content.directory, order.campaign, home)

    def write_tasks_of_jobs(_: list[str]) -> str:
        words, texts = list[str](), list[bytes]()
        for index, (array, place) in enumerate(zip(order.arrays, order.places, strict=True)):
            tasks, job = content.script_tasks_of_array(index), f"{array.array}.{place}"
            texts.append(write_further_tasks(tasks))
            words += [f"group.{job}", f"more.{job}.{tasks[0].number}", str(len(texts[-1]))]
        argv = ("/bin/sh", "-c", WRITE, "sh", folder, *words)
        ssh.run_over_ssh(far.login, argv, dict(BARE), WRITES_S, b"".join(texts)).require_success()
        return ""

    return write_tasks_of_jobs
