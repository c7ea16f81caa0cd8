"""A job's request as a value: nothing asked for is a Request, and nobody changes one."""

from gridbridge.model.job_request import FAR_S, JobRequest, JobSpec


def test_a_job_that_asks_for_nothing_needs_no_batch_system_s_words() -> None:
    asked = JobRequest()

    assert (asked.hard, asked.soft, asked.queues, asked.priority) == ((), (), "", 0)
    assert (asked.is_pinned, asked.is_deferred, asked.own_queues) == (False, False, "")


def test_a_changed_request_is_another_one() -> None:
    asked = JobRequest(hard=(("arch", "x"),), project="p")
    changed = asked.but(hard=())

    assert (asked.hard, changed.hard, changed.project) == ((("arch", "x"),), (), "p")


def test_a_jobs_own_queues_are_known_while_it_is_pinned() -> None:
    pinned = JobRequest(context=(("gridbridge_queues", "all.q short.q"),), queues="transfer-beta")

    assert (pinned.own_queues, pinned.is_pinned) == ("all.q,short.q", True)
    assert JobRequest(queues="all.q").own_queues == "all.q"


def test_a_deferred_job_keeps_its_own_start_time_in_its_context() -> None:
    own = JobRequest(start=1767225600)
    deferred = own.but(start=FAR_S, context=(("gridbridge_start", "1767225600"),))

    assert (own.is_deferred, deferred.is_deferred) == (False, True)
    assert (own.own_start, deferred.own_start) == (1767225600, 1767225600)


def test_a_job_is_serial_and_in_its_owners_home_unless_it_says_more() -> None:
    spec = JobSpec(transfer="gb.alpha.1.0.1", request=JobRequest())
    wide = spec.but(pe="smp", slots=4)

    assert (spec.pe, spec.slots, spec.cwd, spec.shell) == ("", 1, "", "/bin/sh")
    assert (wide.transfer, wide.pe, wide.slots) == ("gb.alpha.1.0.1", "smp", 4)
