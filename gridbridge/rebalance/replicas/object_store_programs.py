"""Calls the site's program of an object store: put, get, stat and remove one object, as a dataset's owner.

The how-to page about data lists the program's arguments and exit statuses. An object's name ends in the SHA-256 of its
content, and has only letters, digits and `_.+-/` after the configured prefix. Only one exit status means a missing
object; any other failure leaves this open.
"""

import os
import pwd
import re
from dataclasses import dataclass

from gridbridge.errors import CommandFailed, FileWritableByOthers, StorageAreaUnreachable
from gridbridge.shell import safe_files
from gridbridge.shell.program_runs import CompletedProgram, run_program
from gridbridge.shell.rsync import WITH_US

NO_OBJECT = 66  # exit status EX_NOINPUT of sysexits(3): the store answered that it has no such object
MOST_BYTES = 1 << 16  # size limit of a program's output
SLOWEST_BYTES_PER_S = 1_000_000  # a call may take `timeout_s`, and a second more for each megabyte
STAT = re.compile(rb"([0-9]{1,18})(?: ([0-9a-f]{64}))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    size_bytes: int
    digest: str  # SHA-256 in hexadecimal digits; empty if the store does not know it


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreForAccount:
    """A storage area of kind command: an object store that a program of the site reaches."""

    name: str
    program: str
    prefix: str
    account: str
    timeout_s: float
    max_bytes: int = 0
    copies_at_once: int = 1
    is_drained: bool = False  # whether the store is drained, and so gets no new replicas

    @property
    def clusters(self) -> tuple[str, ...]:
        """Always empty, because no cluster sees the files of an object store."""
        return ()

    def put(self, dataset: str, digest: str, path: str) -> None:
        """Store a file as an object; raise StorageAreaUnreachable for any failure."""
        words = ("put", self._object_name(dataset, digest), path)
        self._call(words, os.stat(path).st_size, may_miss=False)

    def get(self, dataset: str, digest: str, path: str, size_bytes: int) -> bool:
        """Write an object to a new file; return False for a missing object, raise StorageAreaUnreachable."""
        return not self._call(("get", self._object_name(dataset, digest), path), size_bytes).status

    def stat(self, dataset: str, digest: str) -> StoredObject | None:
        """Return an object's size and checksum, or None for a missing object; raise StorageAreaUnreachable."""
        ended = self._call(("stat", self._object_name(dataset, digest)))
        if ended.status == NO_OBJECT:
            return None
        if not (match := STAT.fullmatch(ended.stdout)):
            printed = ascii(ended.stdout[:80].decode("utf-8", "replace"))
            raise StorageAreaUnreachable(f"{self.program} stat: printed {printed}; expected SIZE or SIZE SHA256")
        return StoredObject(size_bytes=int(match[1]), digest=(match[2] or b"").decode())

    def remove(self, dataset: str, digest: str) -> None:
        """Remove an object; a missing object is no error. Raise StorageAreaUnreachable for any failure."""
        self._call(("remove", self._object_name(dataset, digest)))

    def _object_name(self, dataset: str, digest: str) -> str:
        between = "" if not self.prefix or self.prefix.endswith(("/", ":")) else "/"
        return f"{self.prefix}{between}{self.account}/{dataset}/{digest}"

    def _call(self, words: tuple[str, ...], size_bytes: int = 0, *, may_miss: bool = True) -> CompletedProgram:
        """Run the program; return its result with exit status 0 or, with `may_miss`, NO_OBJECT."""
        limit_s = self.timeout_s + size_bytes / SLOWEST_BYTES_PER_S
        try:
            safe_files.require_trusted_path(self.program, owner=os.geteuid())
            argv = (*WITH_US, self.program, *words)
            ended = run_program(argv, _program_environment(), limit_s, most_bytes=MOST_BYTES)
            return ended if may_miss and ended.status == NO_OBJECT else ended.require_success()
        except CommandFailed as error:
            raise StorageAreaUnreachable(f"{self.program} {words[0]}: {error.failure_in_words}") from error
        except FileWritableByOthers as error:
            raise StorageAreaUnreachable(str(error)) from error
        except OSError as error:
            raise StorageAreaUnreachable(f"{self.program}: {error.strerror}") from error


def _program_environment() -> dict[str, str]:
    """Return the same environment for the owner's commands and for the service's acts as the owner."""
    me = pwd.getpwuid(os.geteuid())
    names = {"HOME": me.pw_dir, "USER": me.pw_name, "LOGNAME": me.pw_name}
    return names | {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
