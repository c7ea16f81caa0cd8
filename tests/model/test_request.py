"""A job request is an immutable value with defaults."""

from gridbridge.model.job_request import FAR_S, JobRequest, JobSpec


def test_an_empty_job_request_has_defaults() -> None:
    asked = JobRequest()

    assert (asked.hard, asked.soft, asked.queues, asked.priority) == ((), (), "", 0)
    assert (asked.is_pinned_to_transfer_queue, asked.is_deferred, asked.owner_requested_queues) == (False, False, "")


def test_a_changed_request_leaves_the_original_unchanged() -> None:
    asked = JobRequest(hard=(("arch", "x"),), project="p")
    changed = asked.with_changes(hard=())

    assert (asked.hard, changed.hard, changed.project) == ((("arch", "x"),), (), "p")


def test_a_pinned_job_keeps_its_own_queues_in_its_context() -> None:
    pinned = JobRequest(context=(("gridbridge_queues", "all.q short.q"),), queues="transfer-beta")

    assert (pinned.owner_requested_queues, pinned.is_pinned_to_transfer_queue) == ("all.q,short.q", True)
    assert JobRequest(queues="all.q").owner_requested_queues == "all.q"


def test_a_deferred_job_keeps_its_own_start_time_in_its_context() -> None:
    own = JobRequest(start=1767225600)
    deferred = own.with_changes(start=FAR_S, context=(("gridbridge_start", "1767225600"),))

    assert (own.is_deferred, deferred.is_deferred) == (False, True)
    assert (own.owner_requested_start, deferred.owner_requested_start) == (1767225600, 1767225600)


def test_a_job_spec_has_defaults_for_a_serial_job() -> None:
    spec = JobSpec(transfer="gb.alpha.1.0.1", request=JobRequest())
    wide = spec.with_changes(pe="smp", slots=4)

    assert (spec.pe, spec.slots, spec.cwd, spec.shell) == ("", 1, "", "/bin/sh")
    assert (wide.transfer, wide.pe, wide.slots) == ("gb.alpha.1.0.1", "smp", 4)
