"""Reads what Grid Engine's clients print as XML: lists, jobs, and any short document."""

from gridbridge.batch.gridengine.parse.details import (
    parse_begun_tasks,
    parse_groups_and_checkpoints,
    parse_job_detail,
    parse_task_caps,
)
from gridbridge.batch.gridengine.parse.documents import (
    QUEUE,
    drop_element,
    iterate_elements,
    parse_repaired_xml,
    parse_short_document,
    require_job_list,
    take_list_rows,
)
from gridbridge.batch.gridengine.parse.lists import (
    BATCH,
    FIXED,
    TRUE,
    count_listed_tasks,
    parse_cluster_snapshot,
    parse_logged_job_state,
    parse_printed_time,
)

__all__ = (
    "BATCH",
    "FIXED",
    "QUEUE",
    "TRUE",
    "count_listed_tasks",
    "drop_element",
    "iterate_elements",
    "parse_begun_tasks",
    "parse_cluster_snapshot",
    "parse_groups_and_checkpoints",
    "parse_job_detail",
    "parse_logged_job_state",
    "parse_printed_time",
    "parse_repaired_xml",
    "parse_short_document",
    "parse_task_caps",
    "require_job_list",
    "take_list_rows",
)
