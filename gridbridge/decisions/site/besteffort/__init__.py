"""Best-effort queues of Grid Engine: what is missing of them, and how they are removed.

A local job has to have a task's place as if no task were there. Queue-wise subordination does
that (queue_conf(5), subordinate_list): it counts slots, and the scheduler starts nothing in what
is suspended. Slot-wise subordination counts tasks, and full hosts are given tasks that it kills
(both tried on 8.1.9).
"""
