"""Publish transfers, their histories and usage, the clusters' answers and the load values, as files for all users."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.batch.configured_cluster_access_and_routes import build_request_mapping, build_transfer_queue_route
from gridbridge.decisions.transfer import transfers_in_job_lists
from gridbridge.decisions.transfer.starter_message_acceptance import describe_job_end
from gridbridge.decisions.transfer.transfer_queue_closing import remote_cluster_load_values
from gridbridge.errors import StateError
from gridbridge.model import names_offered_by_cluster, transfer_messages_in_spool
from gridbridge.model import published_status_and_reports as reports
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.jobs_and_accounting import RemoteJobRunAccounting
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer import request_mapping_rules
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer, TransferEvent
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.model.transfer_route import encode_transfer_route
from gridbridge.program import cluster_observer
from gridbridge.program.cluster_observer import ClusterObserver, ClusterQueryResult
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.state import drains, published_file_formats, published_json
from gridbridge.state.published_files import publish_file
from gridbridge.transfer import remote_usage_and_cursor_rows
from gridbridge.transfer.local_task_acts import ReloadablePollerComponent

MOST_RECORDS = 1000  # largest number of published usage records of one task

History = tuple[Transfer, Sequence[TransferEvent]]


def published_row_with_all_fields(transfer: Transfer, home: ClusterSnapshot | None = None) -> reports.PublishedTransfer:
    """Return a transfer's published row; `home` is the job list that dates the local job's state."""
    local = parse_transfer_name(transfer.name)
    task = home.find_job_list_row(local.job, local.task) if home else None
    same_keys = ("owner", "phase", "desired", "since", "missing_since", "created_at", "closed_at", "cause")
    return reports.PublishedTransfer(
        **{key: getattr(transfer, key) for key in same_keys},
        queue=reports.replace_control_characters(transfer.queue),
        remote=reports.replace_control_characters(transfer.remote),
        remote_host=reports.replace_control_characters(transfer.remote_host),
        reason=reports.replace_control_characters(transfer.reason),
        transfer=transfer.name,
        name=reports.replace_control_characters(task.name) if task else "",
        remote_id=transfer.remote_id or None,
        local_state=transfer.local_state.text,
        local_since=task.since if task else None,
        remote_state=transfer.remote_state.text,
        remote_facts=tuple(sorted(transfer.remote_state.facts)),
        outcome=reports.replace_control_characters(describe_job_end(transfer.verdict)) if transfer.verdict else "",
    )


def published_task_history(local: str, attempts: Sequence[History], is_proved: bool) -> reports.PublishedTaskTransfers:
    last, left_out = transfers_in_job_lists.drop_oldest_attempts(attempts)
    histories = tuple(map(_published_transfer_history, last))
    return reports.PublishedTaskTransfers(job=local, attempts=histories, left_out=left_out, is_proved=is_proved)


def _published_transfer_history(history: History) -> reports.PublishedTransferHistory:
    events, left_out = transfers_in_job_lists.drop_middle_events(history[1])
    clean = reports.replace_control_characters
    shown = tuple(reports.PublishedTransferEvent(at=event.at, text=clean(event.text)) for event in events)
    row = published_row_with_all_fields(history[0])
    return reports.PublishedTransferHistory(transfer=row, events=shown, left_out=left_out)


def published_cluster_row(
    answer: ClusterQueryResult, last: ClusterSnapshot | None, now: datetime
) -> reports.PublishedClusterAnswer:
    """Return a cluster's published row, with the counts of the last answer and the error of the last query."""
    return reports.PublishedClusterAnswer(
        cluster=answer.cluster,
        asked_at=now,
        taken_at=last.taken_at if last else None,
        trouble=reports.replace_control_characters(answer.trouble),
        pending=last.pending if last else None,
        free_slots=last.free_slots if last else None,
        slots=last.batch_slots if last else None,
        used=last.used_batch_slots if last else None,
        besteffort_slots=last.besteffort_slots if last else None,
        queues=tuple(
            reports.PublishedQueueOnHost(
                name=queue.name,
                used=queue.slots_used,
                reserved=queue.slots_reserved,
                total=queue.slots_total,
                state=queue.state.text,
                facts=tuple(sorted(queue.state.facts)),
            )
            for queue in (last.queues if last else ())
        ),
    )


LOAD_VALUE_REWRITE_INTERVAL_S = 2.0  # load values are written again after this time, as the poller's sign of life

UNLISTED = timedelta(minutes=1)  # the home job list shows a new transfer's task within this time


class TransferStatePublisher(ReloadablePollerComponent):
    """Writes the published files; rewrites unchanged load values only every 2 s."""

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        folder: str = PUBLISHED,
        configuration: reports.PublishedConfigurationStatus | None = None,
    ) -> None:
        super().__init__(policy)
        self.folder, self._clock, self._configuration = folder, clock, configuration
        self._started_at = clock.now()
        self._loaded_at = -LOAD_VALUE_REWRITE_INTERVAL_S
        self._values: dict[str, str] = {}
        self._full = ""

    def publish_configuration_status(self, configuration: reports.PublishedConfigurationStatus) -> None:
        self._configuration = configuration
        self._publish_service_status_file()

    def publish_routes(self, used: frozenset[str]) -> None:
        """Publish each queue's remote cluster and mapping; keep the published files of removed queues in `used`."""
        for queue, configured in self.policy.queues.items():
            rules = build_request_mapping(self.policy, configured.cluster, queue)
            # The mapping is published before the route, which names the mapping.
            if rules.rules:
                path = published_file_formats.request_mapping_path(queue, self.folder)
                publish_file(path, request_mapping_rules.encode_request_mapping(rules))
            route = encode_transfer_route(build_transfer_queue_route(self.policy, queue))
            publish_file(published_file_formats.published_route_path(queue, self.folder), route)
        published_file_formats.remove_routes_of_other_queues(used.union(self.policy.queues), self.folder)
        drains.make_cluster_drains_folder(self.folder)
        self._publish_service_status_file()

    def publish_load_values(
        self,
        snapshots: Mapping[str, ClusterSnapshot],
        observers: Mapping[str, ClusterObserver],
        closed: frozenset[str] = frozenset(),
        full: str = "",
    ) -> None:
        """Publish the load values of all remote clusters; if a disk is `full`, close all transfer queues."""
        if full != self._full:
            self._full = full
            self._publish_service_status_file()
        now = self._clock.now()
        values: dict[str, str] = {}
        shut = (
            closed | drains.list_drained_clusters(self.folder) | (self.policy.remote_cluster_names if full else set())
        )
        for name in sorted(self.policy.remote_cluster_names):
            stale_s = max(self.policy.poller.stale_s, 2 * observers[name].interval_s)
            remote = None if name in shut else snapshots.get(name)
            values |= remote_cluster_load_values(remote, name, now, timedelta(seconds=stale_s))
        is_due = self._clock.steady_s() - self._loaded_at >= LOAD_VALUE_REWRITE_INTERVAL_S
        if values == self._values and not is_due:
            return
        self._loaded_at, self._values = self._clock.steady_s(), values
        data = published_file_formats.encode_load_values(self._clock.now_s(), self.policy.poller.stale_s, values)
        publish_file(published_file_formats.load_values_path(self.folder), data)

    def publish_open_transfers(self, transfers: Iterable[Transfer], snapshots: Mapping[str, ClusterSnapshot]) -> None:
        """Publish all new transfers, and the open transfers whose owner is proved."""
        home = snapshots.get(self.policy.site.cluster)
        young = self._clock.now() - UNLISTED
        listed = []
        for transfer in sorted(transfers, key=lambda transfer: transfer.created_at):
            if transfers_in_job_lists.may_everybody_see_transfer(transfer, young):
                row = published_row_with_all_fields(transfer, home)
                is_proved = transfer.listed == OwnerSeenInHomeJobList.YES
                listed.append(row if is_proved else replace(row, reason="", remote_host=""))
        self._publish_json_file(published_json.TRANSFERS, reports.PublishedOpenTransfers(transfers=tuple(listed)))

    def publish_cluster_answer(self, answer: ClusterQueryResult, last: ClusterSnapshot | None) -> None:
        cluster = published_cluster_row(answer, last, self._clock.now())
        self._publish_json_file(f"{published_json.CLUSTERS}/{answer.cluster}.json", cluster)
        if answer.snapshot:
            own = self.policy.transfer_queues_of_cluster(answer.cluster)
            cluster_observer.publish_local_only_queues(answer.snapshot, own, self.folder)
        if answer.vocabulary:
            path = published_file_formats.offered_names_path(answer.cluster, self.folder)
            publish_file(path, names_offered_by_cluster.encode_offered_names(answer.vocabulary))

    def read_published_breakers(self) -> tuple[reports.PublishedClusterBreaker, ...]:
        """Return the breakers that an earlier process published; empty if the file is unreadable."""
        try:
            return published_json.read_published_breakers(self.folder).breakers
        except StateError:
            return ()

    def clusters_without_new_jobs(self, failing: Mapping[str, str]) -> dict[str, str]:
        """Return the drained and failing clusters, which get no new jobs, each with the reason."""
        return {**failing, **{name: f"{name} is drained" for name in drains.list_drained_clusters(self.folder)}}

    def publish_breakers(self, breakers: reports.PublishedBreakersOfClusters) -> None:
        self._publish_json_file(published_json.BREAKERS, breakers)

    def publish_proved_history(self, local: str, attempts: Sequence[History]) -> None:
        task = published_task_history(local, attempts, is_proved=True)
        path = published_file_formats.verified_job_history_path(local, self.folder)
        publish_file(path, published_json.encode_published_value(task))

    def publish_unproved_history(self, local: str, uid: int, attempts: Sequence[History]) -> None:
        """Publish a task's transfers that messages of user `uid` report; remove the file if there are none."""
        path = published_file_formats.unverified_history_path(local, uid, self.folder)
        if not attempts:
            safe_files.remove_file(path)
            return
        is_new = not os.path.exists(path)
        task = published_task_history(local, attempts, is_proved=False)
        publish_file(path, published_json.encode_published_value(task))
        if is_new:  # not at each change, because listing a person's files is slow
            published_json.limit_unverified_histories(self.folder, uid)

    def publish_usage(self, local: str, records: tuple[RemoteJobRunAccounting, ...]) -> None:
        job, _, task = local.partition(".")
        path = published_file_formats.remote_usage_path(int(job), int(task or 0), self.folder)
        last, left_out = transfers_in_job_lists.drop_oldest_attempts(records, MOST_RECORDS)
        clean = reports.replace_control_characters
        shown = tuple(
            replace(record, owner=clean(record.owner), queue=clean(record.queue), host=clean(record.host))
            for record in last
        )
        usage = reports.PublishedRemoteUsage(job=local, records=shown, left_out=left_out)
        publish_file(path, published_json.encode_published_value(usage))

    def publish_epilog_usage(self, local: str, owner: str, figures: dict[str, str]) -> None:
        path = published_file_formats.root_epilog_usage_path(local, owner, self.folder)
        publish_file(path, transfer_messages_in_spool.encode_key_value_lines(figures))

    def publish_accounting_progress(self, readings: Iterable[reports.PublishedAccountingProgress]) -> None:
        positions = reports.PublishedAccountingPositions(readings=tuple(readings))
        self._publish_json_file(remote_usage_and_cursor_rows.ACCOUNTING_PROGRESS_FILE, positions)

    def remove_old_histories(self, before: datetime, living: Iterable[Transfer]) -> None:
        names = frozenset(parse_transfer_name(transfer.name).local_job_or_task_id for transfer in living)
        published_json.remove_old_transfer_histories(self.folder, before, names)
        published_json.remove_old_unverified_histories(self.folder, before)

    def _publish_service_status_file(self) -> None:
        service = reports.PublishedServiceStatus(
            cluster=self.policy.site.cluster,
            version=version_with_commit(),
            started_at=self._started_at,
            keep_closed_h=self.policy.retention.closed_h,
            routes=tuple(
                reports.PublishedTransferQueue(
                    queue=name, cluster=queue.cluster, pending_limit=queue.pending_limit, slots=queue.slots
                )
                for name, queue in self.policy.queues.items()
            ),
            configuration=self._configuration,
            full=reports.replace_control_characters(self._full),
        )
        self._publish_json_file(published_json.SERVICE, service)

    def _publish_json_file(self, name: str, value: object) -> None:
        publish_file(os.path.join(self.folder, name), published_json.encode_published_value(value))
