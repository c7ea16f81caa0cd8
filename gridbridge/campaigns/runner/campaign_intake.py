"""Turns campaign files in the inbox into campaigns or added tasks, and publishes the answers."""

import json
import logging
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from gridbridge.campaigns.runner.added_tasks_intake import ANOTHER, AddedTasksIntake
from gridbridge.campaigns.runner.campaign_notifications import SubscriptionRequestHandler
from gridbridge.campaigns.runner.owner_requests import Begin, CampaignOwnerRequestHandler, Do, execute_owner_request
from gridbridge.campaigns.store import campaign_files_of_owners, campaign_inbox, published_campaign_files
from gridbridge.campaigns.store.campaign_and_attempt_tables import AddedTaskRows, CampaignRows
from gridbridge.campaigns.store.campaign_file_verification import CampaignFileRegister
from gridbridge.campaigns.store.campaign_files_of_owners import NewCampaignOrAddedTasksFile
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.host_clock_jumps import HostClockJumpDetector
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.campaigns.store.shared_input_rows import SharedInputRows
from gridbridge.campaigns.submission import site_admission_rules
from gridbridge.campaigns.submission.jdl_value_parsers import MOST_TASKS
from gridbridge.campaigns.submission.site_admission_rules import campaign_file_jdl_mismatch, jdl_limit_violation
from gridbridge.decisions.campaigns import admission_rule_application
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.decisions.campaigns.predecessor_conditions import explain_unusable_predecessor
from gridbridge.decisions.campaigns.tasks_sharing_inputs import parse_group_ranges
from gridbridge.errors import ConfigError, GridbridgeError, describe_error
from gridbridge.model.campaigns.admission import CampaignAdmissionRule, CampaignForAdmission
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignRunnerSection, NotificationsSection
from gridbridge.model.campaigns.campaign_events import ROOT_EVENTS, CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.campaign_file_and_array_names import INPUT_GROUPS
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb
from gridbridge.model.campaigns.campaign_predecessors import CampaignPredecessor, PredecessorCondition
from gridbridge.model.campaigns.jdl import CampaignType, Jdl
from gridbridge.model.fixed_paths import CAMPAIGNS, PUBLISHED, RUNNER_CLOCKS
from gridbridge.model.host_clocks import sum_clock_jumps
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.transfer_messages_in_spool import shorten_reason_for_storage
from gridbridge.program.model_values_as_json import model_value_from_json
from gridbridge.shell import local_host_facts, safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import LogLineQuotaByPerson
from gridbridge.state import published_files
from gridbridge.state.state_file import StateFile

TRIED = "failed tasks were retried after the backup"
# how long the files of an ended campaign are kept for retries
KEPT = timedelta(days=30)
PURGED_AT_ONCE = 500  # at most this many campaigns are purged in a cycle, because a purge is slow
ANSWERS_KEPT, MOST_ANSWERS = timedelta(days=1), 10_000
MOST_REFUSAL = 4000  # at most this many characters of a refusal are published: a refusal may quote the campaign file
NOBODY = -1  # uid in place of the unknown sender of an unreadable file
NO_WISHES = NotificationsSection()
USUAL = CampaignRunnerSection()
MB = 1_000_000
# largest size of the JDLs of a person's unfinished campaigns, because each cycle reads all of them
MOST_JDL_MB = 64
# largest number of campaigns that wait for the same campaign task by task, because each ended task changes rows of each
MOST_DEPENDENTS = 20
# largest number of predecessors of a person's unfinished campaigns, because each cycle examines all of them
MOST_PREDECESSORS = 10_000

_log = logging.getLogger(__name__)


class CampaignAndRequestIntake:
    def __init__(
        self,
        database: StateFile,
        clusters: frozenset[str],
        clock: Clock,
        folder: str = CAMPAIGNS,
        published: str = PUBLISHED,
        rules: Callable[[], tuple[CampaignAdmissionRule, ...]] = site_admission_rules.load_site_admission_rules,
        notifications: NotificationsSection = NO_WISHES,
        limits: CampaignRunnerSection = USUAL,
        begin: Begin = lambda _: None,
        watched: str = RUNNER_CLOCKS,
        by_api: Collection[str] = (),
        remote_clusters: Container[str] = (),
    ) -> None:
        self._database = database
        self._campaigns = CampaignRows(database)
        self._predecessors = PredecessorRows(database, self._campaigns)
        self._shared_inputs = SharedInputRows(database)
        self._copies = InputCarryRows(database)
        self._kept_parts = AddedTaskRows(database, self._campaigns)
        self._events = EventAndSuccessRecordRows(database)
        self._given = CampaignFileRegister(folder)
        self.requests = CampaignOwnerRequestHandler(
            database, clock, folder, published, begin=begin, register=self._given, clusters=clusters
        )
        subscribing = SubscriptionRequestHandler(database, clock, notifications, folder)
        does: dict[CampaignOwnerRequestVerb, Do] = dict.fromkeys(subscribing.VERBS, subscribing.execute_request)
        self._does = does | dict.fromkeys(self.requests.VERBS, self.requests.execute_request)
        self.parts = AddedTasksIntake(database, self._added_tasks_violation, self._given, folder)
        self._clusters = clusters
        self._remote_clusters = remote_clusters  # clusters to which input files are carried
        self._by_api = frozenset(by_api)  # clusters to and from which no files are carried
        self._clock = clock
        self._limits = limits
        self._folder = folder
        self._published = published
        self._rules = rules
        self._watch = HostClockJumpDetector(clock, watched)
        self._waiting: set[str] = set()  # tokens of files whose failure was logged
        self._quota = LogLineQuotaByPerson(clock.steady_s)

    def process_inbox_files(self) -> int:
        """Accept new campaign files and answer owners' requests; return the number of these files."""
        listed = campaign_inbox.list_inbox_files_of_all_users(self._folder)
        self._quota.log_omitted_line_counts(_log)
        intake_count = 0
        for token, new_file in campaign_files_of_owners.take_new_campaign_files(listed, self._folder):
            with self._handle_inbox_file_failure(token):
                intake_count += self._accept_campaign_file(token, new_file)
        self.requests.begin_request_time_limit()
        for request in campaign_files_of_owners.take_owner_requests(listed, self._folder):
            with self._handle_inbox_file_failure(request.token):
                intake_count += execute_owner_request(request, self._does, self._folder, self._published)
        return intake_count

    @contextmanager
    def _handle_inbox_file_failure(self, token: str) -> Iterator[None]:
        """Log an error; keep the file after an expected error, and remove the file after any other error."""
        try:
            yield
        except (GridbridgeError, OSError) as error:
            if token not in self._waiting:
                _log.error("event=not_taken_now token=%s why=%r", token, describe_error(error))
            self._waiting.add(token)
        except Exception:
            _log.exception("event=not_taken token=%s", token)
            campaign_files_of_owners.remove_refused_inbox_file(token, self._folder)

    def list_unprocessed_inbox_files(self) -> list[str]:
        listed = campaign_inbox.list_inbox_files_of_all_users(self._folder)
        return campaign_files_of_owners.list_unprocessed_inbox_files(listed, self._folder)

    def restore_lost_campaigns(self) -> None:
        """Create campaigns and added tasks that a restored state file lacks, and pause these campaigns."""
        campaign_inbox.make_folder_of_files_in_process(self._folder)
        campaigns = self._campaigns.all_campaigns()
        for campaign in campaigns:
            self._given.register_campaign_file(campaign.number, campaign.uid, campaign.digest)
        for number in sorted({*self._given.campaign_numbers()} - {campaign.number for campaign in campaigns}):
            self._restore_lost_campaign(number)
        with self._database.transaction():
            for grown in self.parts.restore_lost_added_tasks():
                _log.warning("event=parts_forgotten campaign=%s", grown)
                self._open_restored_event(grown, is_paused=True)
            self._open_events_of_lost_retries()

    def _open_events_of_lost_retries(self) -> None:
        """Open an event for each campaign with a retry that a restored state file lacks."""
        since_s = (self._clock.now() - KEPT).timestamp()
        for number, token in self._given.retry_requests_since(since_s):
            campaign = self._campaigns.find_campaign(number)
            is_purged = not campaign or campaign.state is CampaignState.PURGED
            if not is_purged and not self._campaigns.has_executed_request(token, number):
                _log.warning("event=tries_forgotten campaign=%s", number)
                self._open_restored_event(number, TRIED)
                # recorded as executed, because a second retry would open a second event
                self._campaigns.record_executed_request(token, number, self._clock.now())

    def _restore_lost_campaign(self, number: int) -> None:
        new_file = campaign_files_of_owners.read_numbered_campaign_file(number, self._folder)
        if not new_file or not self._given.has_campaign_file(number, new_file.uid, new_file.digest):
            return
        # a paused campaign runs nothing as its owner, so the uid may stand in for an unknown user name
        new_file = replace(new_file, owner=new_file.owner or str(new_file.uid))
        campaign = self._new_campaign_or_refusal(new_file)
        if isinstance(campaign, Campaign):
            campaign = self._resolve_predecessors(replace(campaign, number=number), is_new=False)
        if isinstance(campaign, str):
            _log.error("event=not_recovered campaign=%s why=%r", number, campaign)
            return
        _log.warning("event=campaign_forgotten campaign=%s", number)
        campaign = replace(campaign, state=CampaignState.PAUSED)
        # a random token, because the token of the campaign's file is unknown
        self._insert_campaign(campaign, safe_files.random_file_name(), new_file.header)
        self._open_restored_event(number, is_paused=True)

    def _open_restored_event(self, campaign: int, why: str = "", *, is_paused: bool = False) -> None:
        """Open an event RESTORED, and publish all tasks again, because published files may be newer than the state."""
        if is_paused:
            self._campaigns.set_campaign_state(campaign, CampaignState.PAUSED)
        subject, code, now = CampaignEventSubject.CAMPAIGN, CampaignEventCode.RESTORED, self._clock.now()
        self._events.open_event_once(replace(new_campaign_event(subject, code, campaign, "", now), why=why))
        published_campaign_files.mark_campaigns_being_published(
            {*published_campaign_files.campaigns_half_published(self._published), campaign}, self._published
        )

    def delete_old_files_and_events(self) -> None:
        """Remove old answers, events, requests and files; purge campaigns older than `keep_campaigns_d`."""
        now = self._clock.now()
        answers = campaign_files_of_owners.published_answer_path("", self._published)
        published_files.remove_old_published_files(answers, now - ANSWERS_KEPT, MOST_ANSWERS)
        jumps = self._watch.detect_clock_jumps()
        before = now - KEPT - sum_clock_jumps(jumps)  # files are kept longer if this host's clock has jumped
        self._watch.save_clock_readings()
        ended = self._campaigns.campaigns_ended_before(before)
        for number in ended:
            campaign_files_of_owners.remove_campaign_files(number, self._folder)
        self._copies.forget_input_copies_of_campaigns(ended)
        self._events.close_events_of_ended_campaigns(before, now, but=ROOT_EVENTS)
        self._events.delete_old_events(before)
        self._campaigns.delete_old_request_records(before)
        if kept_d := self._limits.keep_campaigns_d:
            long_ago = before + KEPT - timedelta(days=kept_d)
            self.requests.purge_ended_campaigns(long_ago, PURGED_AT_ONCE)

    def _accept_campaign_file(self, token: str, new_file: NewCampaignOrAddedTasksFile | str) -> bool:
        """Store a new campaign, publish the answer, then rename the file; each step may run twice."""
        existing = self._campaigns.find_campaign_by_file_token(token)
        if isinstance(new_file, str):
            self._refuse_campaign_file(token, ANOTHER if existing else new_file, NOBODY)
            return False
        if not new_file.owner:
            raise GridbridgeError(f"uid {new_file.uid} has no account")
        if new_file.extended_campaign_number is not None:
            return self._accept_added_tasks_file(new_file)
        campaign = existing or self._campaign_file_limit_violation(new_file) or self._new_campaign_or_refusal(new_file)
        if isinstance(campaign, Campaign) and not existing:
            campaign = self._resolve_predecessors(campaign, is_new=True)
        if existing and (existing.uid, existing.digest) != (new_file.uid, new_file.digest):
            campaign = ANOTHER
        if isinstance(campaign, str):
            self._refuse_campaign_file(token, campaign, new_file.uid)
            return False
        if not existing:
            campaign = replace(campaign, number=self._unused_campaign_number())
            self._insert_campaign(campaign, token, new_file.header)
        self._given.register_campaign_file(campaign.number, campaign.uid, campaign.digest)
        campaign_files_of_owners.publish_answer_to_sender(token, {"campaign": campaign.number}, self._published)
        campaign_files_of_owners.rename_file_to_campaign_number(token, campaign.number, self._folder)
        return not existing

    def _accept_added_tasks_file(self, new_file: NewCampaignOrAddedTasksFile) -> bool:
        part = self.parts.store_added_tasks(new_file)
        if isinstance(part, str):
            self._refuse_campaign_file(new_file.token, part, new_file.uid)
            return False
        self._given.register_campaign_file(part.campaign, new_file.uid, part.digest, part.number)
        reply = {"campaign": part.campaign, "tasks": part.tasks}
        campaign_files_of_owners.publish_answer_to_sender(new_file.token, reply, self._published)
        token, number = new_file.token, part.number
        campaign_files_of_owners.rename_file_to_campaign_number(token, part.campaign, self._folder, number)
        return True

    def _insert_campaign(self, campaign: Campaign, token: str, header: dict[str, object]) -> None:
        with self._database.transaction():
            self._predecessors.insert_campaign(campaign, token, self._remote_clusters)
            self._shared_inputs.store_input_groups(campaign.number, parse_group_ranges(header.get(INPUT_GROUPS)))

    def _unused_campaign_number(self) -> int:
        """Return a number that no campaign ever had, even if the state file was restored from a backup."""
        number = max(self._campaigns.last_campaign_number(), self._given.highest_campaign_number()) + 1
        while campaign_files_of_owners.is_campaign_number_taken(number, self._folder):
            number += 1
        return number

    def _refuse_campaign_file(self, token: str, problem: str, uid: int) -> None:
        if self._quota.may_write_log_line(uid):
            _log.warning("event=no_campaign token=%s uid=%d why=%r", token, uid, shorten_reason_for_storage(problem))
        message = problem if len(problem) <= MOST_REFUSAL else f"{problem[:MOST_REFUSAL]}..."
        campaign_files_of_owners.publish_answer_to_sender(token, {"refused": message}, self._published)
        campaign_files_of_owners.remove_refused_inbox_file(token, self._folder)

    def _campaign_file_limit_violation(self, new_file: NewCampaignOrAddedTasksFile) -> str:
        parts = self._kept_parts.list_campaign_files_of_person(new_file.uid)
        held, size = campaign_files_of_owners.measure_person_campaign_files(parts, new_file.uid, self._folder)
        most, most_mb = self._limits.files_per_uid, self._limits.mb_per_uid
        if held < most and size + new_file.size <= most_mb * MB:
            return self._jdl_limit_violation(new_file)
        brought = number_with_noun(held + 1, "campaign file")
        would = f"you would have {brought} with {(size + new_file.size) / MB:.1f} MB"
        purge = "griddel --purge removes the files of ended campaigns"
        return f"{would}; expected at most {most} files with {most_mb} MB: {purge}"

    def _jdl_limit_violation(self, new_file: NewCampaignOrAddedTasksFile) -> str:
        if new_file.extended_campaign_number is not None:
            return ""
        size = self._campaigns.measure_jdls_of_person(new_file.uid) + len(json.dumps(new_file.header))
        wrong = f"your unfinished campaigns would have descriptions of {size / MB:.1f} MB without their parameters"
        return "" if size <= MOST_JDL_MB * MB else f"{wrong}; expected at most {MOST_JDL_MB} MB"

    def _new_campaign_or_refusal(self, new_file: NewCampaignOrAddedTasksFile) -> Campaign | str:
        try:
            jdl = model_value_from_json(new_file.header, Jdl)
        except Exception as error:  # untrusted content may cause any exception
            return f"not what gridsub writes: {error!r:.200}"
        if unknown := ", ".join(sorted(jdl.clusters.keys() - self._clusters)):
            return f"no cluster {unknown} here; the clusters are {', '.join(sorted(self._clusters))}"
        by_api = {name: settings for name, settings in jdl.clusters.items() if name in self._by_api}
        is_grouped = any(settings.temporal_grouping or settings.side_by_side > 1 for settings in by_api.values())
        if by_api and (jdl.inputs or jdl.outputs_to or jdl.checkpoint_files or is_grouped):
            keys = "inputs, outputs_to, checkpoint_files, temporal_grouping, dimensional_grouping"
            wrong = f"no files are carried to or from {', '.join(sorted(by_api))}, a cluster by api"
            return f"{keys}: {wrong}; expected clusters by ssh"
        if not (new_file.tasks and jdl.clusters):
            return "the campaign has no task or no cluster"
        if new_file.tasks > MOST_TASKS:
            return f"the campaign has {new_file.tasks} tasks; expected at most {MOST_TASKS}"
        misfit = jdl_limit_violation(jdl) or campaign_file_jdl_mismatch(new_file.header, jdl)
        if problem := misfit or self._admission_rule_violation(new_file, jdl):
            return problem
        # the ends of grouped tasks are read from files, and no files are carried from a cluster by api
        alone = {name: replace(settings, temporal_grouping=False) for name, settings in by_api.items()}
        jdl = replace(jdl, clusters={**jdl.clusters, **alone})
        is_test = jdl.type is CampaignType.TEST
        return Campaign(
            number=0,
            uid=new_file.uid,
            owner=new_file.owner,
            state=CampaignState.IN_TREATMENT,
            submitted_at=self._clock.now(),
            tasks=min(new_file.tasks, len(jdl.clusters)) if is_test else new_file.tasks,
            digest=new_file.digest,
            jdl=jdl,
        )

    def _resolve_predecessors(self, campaign: Campaign, *, is_new: bool) -> Campaign | str:
        """Return a campaign with the numbers of its predecessors, or the reason of its refusal.

        All predecessors have lower numbers, so no campaign waits for itself. If a restored state file lacks a campaign,
        the campaign is not new (`is_new`), and is accepted again whatever the state of its predecessors.
        """
        jdl, after = campaign.jdl, dict[int, CampaignPredecessor]()
        count = len(jdl.after) + self._predecessors.count_predecessors_of_person(campaign.uid) if jdl.after else 0
        if is_new and count > MOST_PREDECESSORS:
            problem = f"your unfinished campaigns would name {count} predecessors"
            return f"after: {problem}; expected at most {MOST_PREDECESSORS}"
        for predecessor in jdl.after:
            earlier = self._find_predecessor(predecessor, campaign)
            if isinstance(earlier, str):
                return f"after {predecessor.jdl_text}: {earlier}"
            if earlier.number in after:
                return f"after {predecessor.jdl_text}: campaign {earlier.number} is named twice"
            if is_new and predecessor.condition is PredecessorCondition.SAME:
                dependents = self._predecessors.dependents_task_by_task(earlier.number)
                if len(dependents) >= MOST_DEPENDENTS:
                    problem = f"{len(dependents)} unfinished campaigns wait for its tasks"
                    return f"after {predecessor.jdl_text}: {problem}; expected less than {MOST_DEPENDENTS}"
            progress = self._predecessors.progress_of_campaign(earlier.number)
            tasks, on_failure = campaign.tasks, jdl.on_failure
            if is_new and (why := explain_unusable_predecessor(predecessor, progress, tasks, on_failure)):
                return f"after {predecessor.jdl_text}: {why}"
            after[earlier.number] = replace(predecessor, number=earlier.number, name=earlier.jdl.name)
        return replace(campaign, jdl=replace(jdl, after=tuple(after.values())))

    def _find_predecessor(self, predecessor: CampaignPredecessor, campaign: Campaign) -> Campaign | str:
        below, number = campaign.number or self._unused_campaign_number(), predecessor.number
        if number < 1:
            named = self._predecessors.find_newest_campaign(campaign.uid, predecessor.name, below)
            return named or "no campaign of yours has this name"
        numbered = self._campaigns.find_campaign(number) if number < below else None
        if numbered is None or numbered.state is CampaignState.PURGED:
            return f"no campaign {number}"
        return numbered if numbered.uid == campaign.uid else f"campaign {number} is owned by another user"

    def _added_tasks_violation(self, new_file: NewCampaignOrAddedTasksFile, campaign: Campaign) -> str:
        whole = replace(new_file, tasks=campaign.tasks + new_file.tasks)
        return self._campaign_file_limit_violation(new_file) or self._admission_rule_violation(whole, campaign.jdl)

    def _admission_rule_violation(self, new_file: NewCampaignOrAddedTasksFile, jdl: Jdl) -> str:
        groups = frozenset(local_host_facts.groups_of_account(new_file.owner))
        candidate = CampaignForAdmission(user=new_file.owner, groups=groups, tasks=new_file.tasks, jdl=jdl)
        try:
            return admission_rule_application.explain_admission_violation(self._rules(), candidate)
        except ConfigError as error:
            return f"the site's admission rules are wrong: {error}"
