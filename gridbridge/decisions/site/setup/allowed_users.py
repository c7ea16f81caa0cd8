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
    wanted, listed = (
        situation.wanted,
        situation.home.user_lists.get(situation.wanted.people_list, ()),
    )
    if not wanted.people:
        return
    missing = tuple(sorted(set(wanted.people) - set(listed)))
    surplus = tuple(sorted(set(listed) - set(wanted.people)))
    item, right = f"userset {wanted.people_list}", ",".join(sorted(wanted.people))
    found = ",".join(sorted(listed)) or "missing"
    if not missing + surplus:
        yield CheckFinding(item=item, state=FindingState.OK, found=found)
        return
    changes = ((EditVerb.ALLOW, missing), (EditVerb.DISALLOW, surplus))
    mend = tuple(
        SetupEdit(verb=verb, cell=wanted.home, name=wanted.people_list, value=",".join(people))
        for verb, people in changes
        if people
    )
    yield CheckFinding(item=item, state=FindingState.BROKEN, found=found, right=right, mend=mend)


def list_findings(situation: SetupSituation, queue: Settings) -> Iterator[CheckFinding]:
    """Judge whether the queue has that list on each host, or none where nobody is named."""
    wanted, value = situation.wanted, queue.get(USER_LISTS, "NONE")
    item, is_wanted = f"queue {wanted.queue}: {USER_LISTS}", bool(wanted.people)
    every = by_place(value)
    wrong = [where for where, names in every if (wanted.people_list in words(names)) != is_wanted]
    if not wrong:
        yield CheckFinding(item=item, state=FindingState.OK, found=value)
        return
    edit = SetupEdit(
        verb=EditVerb.MERGE if is_wanted else EditVerb.DROP,
        cell=wanted.home,
        kind="queue",
        name=wanted.queue,
        attribute=USER_LISTS,
        value=wanted.people_list,
    )
    right = f"{wanted.people_list} among them" if is_wanted else f"without {wanted.people_list}"
    yield CheckFinding(
        item=item,
        state=FindingState.BROKEN,
        found=value,
        right=right,
        mend=tuple(replace(edit, name=f"{wanted.queue}{where}") for where in wrong),
    )


def taken_back(situation: SetupSituation) -> Iterator[SetupEdit]:
    """Remove the list with the last queue that has it."""
    wanted = situation.wanted
    others = (queue for name, queue in situation.home.queues.items() if name != wanted.queue)
    lists = (names for queue in others for _, names in by_place(queue.get(USER_LISTS, "")))
    is_needed = any(wanted.people_list in words(names) for names in lists)
    if wanted.people_list in situation.home.user_lists and not is_needed:
        yield SetupEdit(verb=EditVerb.DROP_LIST, cell=wanted.home, name=wanted.people_list)
