"""The exceptions of gridbridge, one class for each way in which a program can fail.

This module imports nothing: the hot programs load it at every start.
"""


def describe_error(error: BaseException) -> str:
    """Return what an error says in words; of the system's own errors without their numbers."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


class GridbridgeError(Exception):
    """Anything that gridbridge says to its user in one line and without a traceback."""


class OutputError(GridbridgeError):
    """Standard output takes no more: its disk is full, or it was closed before we began."""


class OutputReaderGone(GridbridgeError):
    """Nobody reads our standard output any more: `| head` has seen enough."""


class ConfigError(GridbridgeError):
    """The configuration is wrong; `problems` holds one line for each mistake found."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CommandLineMistake(ConfigError):
    """What was typed on the command line is wrong, or a file that it names can't be read."""


class UntrustedFile(ConfigError):
    """Nobody obeys a file that others can change; `mend` is the command line that ends that."""

    def __init__(self, path: str, wrong: str, mend: str) -> None:
        super().__init__(
            (f"others could have written {path}, for {wrong}. Read it, then run: {mend}",)
        )
        self.path = path
        self.wrong = wrong
        self.mend = mend


class ParseError(GridbridgeError):
    """Bytes from outside are not what their format promises."""


class StateError(GridbridgeError):
    """The state file or the spool can't be used: full, newer than we are, or not ours."""


class TmpdirFull(StateError):
    """The filesystem of a job's TMPDIR takes no more notes, or its owner's quota there is used."""


class ClusterNotObserved(GridbridgeError):
    """A cluster gave no whole answer: nothing is known of it, and so nothing is done there."""


class NoCapacity(GridbridgeError):
    """A provider has no machine of the wanted kind left; another pool may have one."""


class TasksOnLostHost(GridbridgeError):
    """Tasks are on a host that is gone, and only somebody's hand ends them."""

    def __init__(self, host: str, tasks: tuple[str, ...]) -> None:
        named = " ".join(tasks)
        super().__init__(f"{host} is gone with {named}: `qdel -f {named}` ends what ran there")


class HostNotIdle(GridbridgeError):
    """A silent host is not switched off, as tasks may run there."""

    def __init__(self, host: str) -> None:
        super().__init__(f"the cell has tasks on {host}, whose daemon is silent: it stays on")


class AddressTaken(GridbridgeError):
    """A new machine is said to have the address of another host of the site."""

    def __init__(self, name: str, address: str, host: str) -> None:
        super().__init__(f"{address} is the address of {host}: {name} is not prepared there")


class HostInNoQueue(GridbridgeError):
    """A new host is in no queue: neither its name nor a group of it is among a queue's hosts."""

    def __init__(self, host: str, groups: tuple[str, ...]) -> None:
        named = " or ".join((host, *groups))
        super().__init__(f"{host} is in no queue: no queue's hostlist has {named}")


class ProviderRequestUnconfirmed(GridbridgeError):
    """A provider did not do it, or nobody knows whether it did: the same may work later."""


class ProviderRequestRepeatable(ProviderRequestUnconfirmed):
    """A provider is to be asked the same again: it did nothing, or a repeat makes no second one."""


class ProviderFailed(GridbridgeError):
    """A provider refused for good, or its answer can't be read."""


class UnconfiguredTransferQueue(GridbridgeError):
    """A queue that calls our starter is not one of gridbridge.toml's."""


class UnmappableRequest(GridbridgeError):
    """A job asks for what a remote cluster does not have: it can't go there."""


class AlreadySubmitted(GridbridgeError):
    """Root's ledger has this array with other tasks, or one of its attempts in another array."""


class LedgerUnreadable(GridbridgeError):
    """Root's ledger of a campaign can't be read, or lacks what was submitted."""


class CampaignFileChanged(GridbridgeError):
    """A campaign's file is not what it was at the first call: nothing more of it is submitted."""


class CampaignFileUnreadable(GridbridgeError):
    """A campaign's file can't be read now: nothing is known of what its owner brought."""


class CampaignClosed(GridbridgeError):
    """Root's ledger has the end of a campaign, and its owner has not taken it up again since."""


class SpeculativeCopyRefused(GridbridgeError):
    """No copy of a task is submitted: its owner did not allow it, or it has had its copies."""


class RemoteJobNotOurs(GridbridgeError):
    """The job of a transfer's id is another's, or of another transfer: numbers have begun anew."""


class OwnerUnknown(GridbridgeError):
    """An owner's account is gone: nothing was done as that person."""


class OwnerBarred(GridbridgeError):
    """A remote cluster refused a job's owner so often that the job is not sent there."""


class UnstageablePaths(GridbridgeError):
    """What a job declares to be carried there can't be: it has to be declared otherwise."""


class StorageUnusable(GridbridgeError):
    """A storage area, or a replica in it, can't be used now; the message says why."""


class StorageUnreachable(StorageUnusable):
    """Nobody knows what is in a storage area: it can't be reached, or is not mounted."""


class UnsafeFolder(GridbridgeError):
    """A folder elsewhere is not there, or is not safe to use; `mend` is an administrator's line."""

    def __init__(self, wrong: str, mend: str) -> None:
        super().__init__(f"{wrong}; an administrator there types: {mend}")
        self.wrong = wrong
        self.mend = mend


class ConflictingEnds(GridbridgeError):
    """A job's records at another cluster tell different ends: none of them is believed."""


class CommandFailed(GridbridgeError):
    """A program that we ran did not do its work.

    `status` is the exit status, negative for a signal (as in waitpid's decoding) and None
    when the program was stopped at its time limit. `transient` says that the same call may
    succeed later.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        status: int | None,
        stdout: bytes = b"",
        stderr: bytes = b"",
        host: str = "",
        transient: bool = False,
    ) -> None:
        self.argv = argv
        self.status = status
        self.stdout = stdout
        self.stderr = stderr
        self.host = host
        self.transient = transient
        super().__init__(self.reason)

    @property
    def words(self) -> str:
        """One line: the program's own last words, or how it ended."""
        words = (self.stderr or self.stdout).decode("utf-8", "replace").strip().splitlines()
        ended = "no answer in time" if self.status is None else f"exit status {self.status}"
        return words[-1] if words else ended

    @property
    def reason(self) -> str:
        """The same after the program's name."""
        return f"{self.argv[0].rpartition('/')[2]}: {self.words}"


class OutputTooLong(CommandFailed):
    """A program printed too much: it was ended, and its output does not count."""

    def __init__(self, argv: tuple[str, ...], most_bytes: int, host: str = "") -> None:
        limit = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes >> 10} KiB"
        where = f" at {host}" if host else ""
        why = f"it printed more{where} than the {limit} that are read of it"
        super().__init__(argv, None, b"", why.encode(), host=host)


class ProgramNotStarted(CommandFailed):
    """A program of this host could not be started: its file is not there, or can't be run."""

    def __init__(self, argv: tuple[str, ...], error: OSError) -> None:
        super().__init__(argv, 127, b"", f"{argv[0]}: {error.strerror or error}".encode())


class HostNotReached(CommandFailed):
    """The host that was to run a program could not be reached: nothing was sent to it."""


class SshAccessRejected(HostNotReached):
    """The host or this person's client does not accept the other side's key or account."""


class SshLoginRefused(SshAccessRejected):
    """The host refused this person's login: nothing was sent to it."""


class JobNotAccepted(GridbridgeError):
    """A cluster did not take a job, for now; `cause` is a message's."""

    def __init__(self, why: str, cause: str) -> None:
        super().__init__(why)
        self.cause = cause
