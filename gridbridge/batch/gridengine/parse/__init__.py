"""Parses the XML output of Grid Engine's clients: lists, jobs, and any short document."""

from gridbridge.batch.gridengine.parse.qstat_xml import (
    parse_array_concurrency_limits,
    parse_begun_tasks,
    parse_job_detail,
    parse_unix_groups_and_ckpts,
)
from gridbridge.batch.gridengine.parse.qstat_xml import (
    QUEUE,
    for_each_listed_job_and_queue,
    free_parsed_element,
    iterate_xml_elements,
    parse_repaired_xml,
    parse_short_xml,
    require_job_list,
)
from gridbridge.batch.gridengine.parse.qstat_xml import (
    BATCH,
    FIXED,
    TRUE,
    count_tasks_in_ranges,
    parse_cluster_snapshot,
    parse_job_state_log_unknown,
    parse_printed_time,
)

__all__ = (
    "BATCH",
    "FIXED",
    "QUEUE",
    "TRUE",
    "count_tasks_in_ranges",
    "for_each_listed_job_and_queue",
    "free_parsed_element",
    "iterate_xml_elements",
    "parse_array_concurrency_limits",
    "parse_begun_tasks",
    "parse_cluster_snapshot",
    "parse_job_detail",
    "parse_job_state_log_unknown",
    "parse_printed_time",
    "parse_repaired_xml",
    "parse_short_xml",
    "parse_unix_groups_and_ckpts",
    "require_job_list",
)
