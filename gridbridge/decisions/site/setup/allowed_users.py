"""Whose jobs a transfer queue takes: if gridbridge.toml names people, only theirs.

It would be no use to send the job of a person without an account there. The list is a userset of
ours (access_list(5)), which `setup` keeps equal to the file; other lists that an administrator gave
the queue stay.
"""

from collections.abc import Iterator
from dataclasses import replace

from gridbridge.model.attributes import Settings, by_place, words
from gridbridge.model.site.setup_findings import (
    CheckFinding,
    EditVerb,
    FindingState,
    SetupEdit,
    SetupSituation,
)

USER_LISTS = "user_lists"


def people_findings(situation: SetupSituation) -> Iterator[CheckFinding]:
    """Judge the list of people; it is there before the queue that has it."""
    request, listed = (
        situation.wanted,
        situation.home.user_lists.get(situation.wanted.people_list, ()),
    )
    if not request.people:
        return
    missing = tuple(sorted(set(request.people) - set(listed)))
    surplus = tuple(sorted(set(listed) - set(request.people)))
    item, right = f"userset {request.people_list}", ",".join(sorted(request.people))
    actual = ",".join(sorted(listed)) or "missing"
    if not missing + surplus:
        yield CheckFinding(item=item, state=FindingState.OK, found=actual)
        return
    changes = ((EditVerb.ALLOW, missing), (EditVerb.DISALLOW, surplus))
    mend = tuple(
        SetupEdit(verb=verb, cell=request.home, name=request.people_list, value=",".join(people))
        for verb, people in changes
        if people
    )
    yield CheckFinding(item=item, state=FindingState.BROKEN, found=actual, right=right, mend=mend)


def list_findings(situation: SetupSituation, queue: Settings) -> Iterator[CheckFinding]:
    """Judge whether the queue has that list on each host, or none where nobody is named."""
    request, value = situation.wanted, queue.get(USER_LISTS, "NONE")
    item, is_wanted = f"queue {request.queue}: {USER_LISTS}", bool(request.people)
    lists_by_host = by_place(value)
    wrong = [
        where
        for where, names in lists_by_host
        if (request.people_list in words(names)) != is_wanted
    ]
    if not wrong:
        yield CheckFinding(item=item, state=FindingState.OK, found=value)
        return
    edit = SetupEdit(
        verb=EditVerb.MERGE if is_wanted else EditVerb.DROP,
        cell=request.home,
        kind="queue",
        name=request.queue,
        attribute=USER_LISTS,
        value=request.people_list,
    )
    right = f"{request.people_list} among them" if is_wanted else f"without {request.people_list}"
    yield CheckFinding(
        item=item,
        state=FindingState.BROKEN,
        found=value,
        right=right,
        mend=tuple(replace(edit, name=f"{request.queue}{where}") for where in wrong),
    )


def taken_back(situation: SetupSituation) -> Iterator[SetupEdit]:
    """Remove the list with the last queue that has it."""
    request = situation.wanted
    other_queues = (queue for name, queue in situation.home.queues.items() if name != request.queue)
    lists = (names for queue in other_queues for _, names in by_place(queue.get(USER_LISTS, "")))
    is_needed = any(request.people_list in words(names) for names in lists)
    if request.people_list in situation.home.user_lists and not is_needed:
        yield SetupEdit(verb=EditVerb.DROP_LIST, cell=request.home, name=request.people_list)
