"""The lease of a program's leading master, and the marks that masters leave in their shared folders."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class MasterProgram(StrEnum):
    """The programs that several hosts may run, of which only one process leads."""

    RUNNER = "runner"
    NIKITA = "nikita"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignMasterLease:
    """A row of the lease table, as the database's clock shows it.

    `term` grows with each change of the leading process. A master that leads has written its term into each shared
    folder, and then `accepted_term` and `folders`: {path: inode number of the folder's mark}.
    """

    program: MasterProgram
    term: int = 0
    host: str = ""  # the leading host and its boot id; empty if the lease was given up
    left_s: float = 0.0  # seconds until the lease expires, negative after its end
    accepted_term: int = 0
    folders: Mapping[str, int]

    @property
    def host_name(self) -> str:
        return self.host.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFolderMark:
    """The mark of the last leading master that saw the folder; term 0 for a folder without a mark."""

    term: int = 0
    inode: int = 0
