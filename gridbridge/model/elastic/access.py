"""Whose jobs a queue or a parallel environment admits: queue_conf(5), sge_pe(5), access_list(5).

Grid Engine judges a job by its owner, the owner's primary group, its project and its checkpointing
environment. Newer versions also know patterns of names, and a user's other groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gridbridge.model.attributes import words

USERS, BARRED_USERS = "user_lists", "xuser_lists"
PROJECTS, BARRED_PROJECTS = "projects", "xprojects"
CHECKPOINTS = "ckpt_list"
USER_LISTS = (USERS, BARRED_USERS)
PROJECT_LISTS = (PROJECTS, BARRED_PROJECTS)
ACCESS = (*USER_LISTS, *PROJECT_LISTS, CHECKPOINTS)  # attributes of a queue
GROUP = "@"  # begins the name of a group in a user list


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccessIdentity:
    """What lists judge a job by; what is not known keeps it out of nothing."""

    owner: str = ""  # empty: unknown
    group: str = ""  # empty: unknown
    project: str | None = None  # empty: it has none; None: unknown
    checkpoint: str = ""  # its checkpointing environment; empty: it has none, or unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class UserList:
    """An access list, or a department, which admits nobody to a queue."""

    entries: tuple[str, ...] = ()  # users, and groups that begin with @
    is_access: bool = True  # Grid Engine looks at no other list

    def has(self, identity: JobAccessIdentity) -> bool:
        """Say whether a job's owner or group is in it."""
        return identity.owner in self.entries or (
            bool(identity.group) and f"{GROUP}{identity.group}" in self.entries
        )

    def may_have(self, identity: JobAccessIdentity) -> bool:
        """Say whether the owner may be in it, as far as is known."""
        return self.is_access and (
            self.has(identity) or any(_may_be(identity, entry) for entry in self.entries)
        )


def _may_be(identity: JobAccessIdentity, entry: str) -> bool:
    """Say whether an entry is a pattern of the owner's name, or a group while that is unknown."""
    if entry.startswith(GROUP):
        return not identity.group
    return fnmatchcase(identity.owner, entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAccessLists:
    """The names of a queue's or an environment's lists, as they are on one host."""

    users: tuple[str, ...] = ()  # none: everybody
    barred_users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()  # none: all, and jobs without a project
    barred_projects: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] | None = None  # None: unknown

    @property
    def names_users(self) -> bool:
        """Whether the owner of a job counts."""
        return bool(self.users or self.barred_users)

    @property
    def names_projects(self) -> bool:
        """Whether the project of a job counts."""
        return bool(self.projects or self.barred_projects)

    def obstacle(self, identity: JobAccessIdentity, lists: Mapping[str, UserList]) -> str:
        """Return what keeps a job out; empty: it is admitted, as far as is known."""
        if identity.owner and not self._admits_user(identity, lists):
            return f"user {identity.owner}"
        if identity.project is not None and not self._admits_project(identity.project):
            return f"project {identity.project}" if identity.project else "jobs without a project"
        checkpoint = identity.checkpoint
        if checkpoint and self.checkpoints is not None and checkpoint not in self.checkpoints:
            return f"checkpointing environment {checkpoint}"
        return ""

    def _admits_user(self, identity: JobAccessIdentity, lists: Mapping[str, UserList]) -> bool:
        barring = (lists[name] for name in self.barred_users if name in lists)
        if any(not user_list.is_access or user_list.has(identity) for user_list in barring):
            return False
        return not self.users or any(
            name not in lists or lists[name].may_have(identity) for name in self.users
        )

    def _admits_project(self, project: str) -> bool:
        return project not in self.barred_projects and (
            not self.projects or project in self.projects
        )


ANYBODY, TO_ALL = JobAccessIdentity(), QueueAccessLists()


def parse_access_lists(settings: Mapping[str, str]) -> QueueAccessLists:
    """Read the lists of a queue or an environment, each attribute as it is on one host."""
    named = {key: words(settings.get(key, "")) for key in ACCESS}
    return QueueAccessLists(
        users=named[USERS],
        barred_users=named[BARRED_USERS],
        projects=named[PROJECTS],
        barred_projects=named[BARRED_PROJECTS],
        checkpoints=named[CHECKPOINTS] if CHECKPOINTS in settings else None,
    )
