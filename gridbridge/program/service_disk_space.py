"""Checks the free space for the service's files and for the TMPDIR folders of starters."""

import logging
import os
from collections.abc import Callable, Iterable

from gridbridge.batch import load_home_job_control
from gridbridge.batch.configured_cluster_access_and_routes import configured_home_cluster_access
from gridbridge.decisions.site.service_fault_findings import first_full_folder_reason
from gridbridge.model.fixed_paths import CAMPAIGNS
from gridbridge.model.site.site_check_facts import FolderFreeSpace
from gridbridge.model.site_configuration import Policy
from gridbridge.program.threads_and_backoff import OwnerThreadPools, RepeatedBackgroundQuery
from gridbridge.shell import local_host_facts

LOOK_S = 5.0

_log = logging.getLogger(__name__)
ASK_S = 600.0  # interval of queries for tmpdir, which administrators may change
TMPDIR = "tmpdir"  # attribute of queue_conf(5)


class FullServiceFolderWatch:
    """Finds a folder without free space: writes regularly into each folder as a test."""

    def __init__(
        self, folders: Iterable[str], clock: Callable[[], float], tmpdirs: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._folders = tuple(folders)
        self._tmpdirs = tmpdirs  # TMPDIR folders of starters, in which the service may not write
        self._clock = clock
        self._looked_at = -LOOK_S
        self._lacks = ""

    def full_folder(self) -> str:
        """Return the folder without free space, which closes the transfer queues; '' if all have space."""
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            self._test_free_space_of_folders()
        return self._lacks

    def _test_free_space_of_folders(self) -> None:
        rooms = {folder: local_host_facts.free_space_by_test_write(folder) for folder in self._folders}
        shortage = first_full_folder_reason(rooms) or first_full_folder_reason(
            free_space_of_starter_tmpdirs(self._tmpdirs())
        )
        if bool(shortage) != bool(self._lacks):
            words = f"event=full why={shortage!r}" if shortage else "event=room_again"
            _log.log(logging.ERROR if shortage else logging.INFO, words)
        self._lacks = shortage


def free_space_of_campaign_filesystem(folder: str = CAMPAIGNS) -> dict[str, FolderFreeSpace]:
    """Return the free space of the folder of campaign files, if this folder is a filesystem of its own."""
    return {folder: local_host_facts.free_bytes_and_files_of_folder(folder)} if os.path.ismount(folder) else {}


def free_space_of_starter_tmpdirs(tmpdirs: Iterable[str]) -> dict[str, FolderFreeSpace]:
    """Return the free space of the TMPDIR folders of starters; missing folders are left out."""
    rooms = {folder: local_host_facts.free_bytes_and_files_of_folder(folder) for folder in tmpdirs}
    return {folder: room for folder, room in rooms.items() if not room.trouble}


class StarterTmpdirQuery:
    """Queries the home cluster every ten minutes for the TMPDIR folders of starters."""

    def __init__(self, policy: Policy, workers: OwnerThreadPools, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._known: frozenset[str] = frozenset()
        self._question = RepeatedBackgroundQuery[tuple[str, ...], frozenset[str]](
            workers, policy.site.cluster, TMPDIR, self._query_starter_tmpdirs, clock, ASK_S
        )

    def use_changed_configuration(self, policy: Policy) -> None:
        self._policy = policy

    def queried_tmpdir_folders(self) -> frozenset[str]:
        if answer := self._question.take_query_result():
            self._known = answer[1]
        queues = () if self._policy.why_no_transfer_queues else tuple(self._policy.queues)
        if queues and self._question.is_query_due():
            self._question.start_query(queues)
        return self._known

    def _query_starter_tmpdirs(self, queues: tuple[str, ...]) -> frozenset[str]:
        at = configured_home_cluster_access(self._policy, self._policy.site.cluster)
        host_name = local_host_facts.this_host_name()
        folders = (load_home_job_control(at).query_queue_limit(at, queue, TMPDIR, host_name) for queue in queues)
        return frozenset(folder for folder in folders if folder.startswith("/"))
