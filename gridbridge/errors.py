"""The exceptions of gridbridge; imports nothing, because frequently started programs load it."""


def describe_error(error: BaseException) -> str:
    """Return an error's text; a system error is described without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def error_on_one_line(error: BaseException) -> str:
    return " ".join(describe_error(error).split())


class GridbridgeError(Exception):
    """A failure that gridbridge reports in one line, without a traceback."""


class StandardOutputUnwritable(GridbridgeError):
    """Standard output can't be written: the disk is full, or the output is closed."""


class StandardOutputReaderGone(GridbridgeError):
    """The reader of standard output has ended, as in `| head`."""


class ConfigError(GridbridgeError):
    """A configuration with mistakes; `problems` holds one line for each mistake."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CommandLineMistake(ConfigError):
    """A command-line argument is wrong, or names an unreadable file."""


class FileWritableByOthers(ConfigError):
    """A file that others can change is refused; `mend` is the repair command."""

    def __init__(self, path: str, wrong: str, mend: str) -> None:
        super().__init__((f"others could have written {path}: {wrong}. Check the file, then run: {mend}",))
        self.path = path
        self.wrong = wrong
        self.mend = mend


class ParseError(GridbridgeError):
    """Bytes from outside violate their format."""


class StateError(GridbridgeError):
    """The state file or the spool is unusable: full, of a newer version, or of another owner."""


class DatabaseDriverMissing(StateError):
    """The library for PostgreSQL is not installed."""


class JobTmpdirFull(StateError):
    """The filesystem or the owner's quota of a job's TMPDIR is full."""


class ClusterStateUnknown(GridbridgeError):
    """A cluster gave no complete answer, so no action is taken at this cluster."""


class ProviderOutOfMachines(GridbridgeError):
    """A provider has no machine of the wanted kind; another pool may have machines."""


class TasksOnLostHost(GridbridgeError):
    """Tasks remain on a host that is gone; only an administrator can end them."""

    def __init__(self, host: str, tasks: tuple[str, ...]) -> None:
        named = " ".join(tasks)
        super().__init__(f"{host} is gone with tasks {named}: `qdel -f {named}` ends these tasks")


class SilentHostMayRunTasks(GridbridgeError):
    """A host that does not answer is not powered off, because tasks may run on the host."""

    def __init__(self, host: str) -> None:
        super().__init__(f"the cell has tasks on {host}, whose daemon is silent: the host stays on")


class NewMachineAddressInUse(GridbridgeError):
    def __init__(self, name: str, address: str, host: str) -> None:
        super().__init__(f"{name}: address {address} belongs to {host}; the new machine is not prepared")


class NewHostInNoQueue(GridbridgeError):
    """A new host is in no queue: no hostlist has the host's name or a group of the host."""

    def __init__(self, host: str, groups: tuple[str, ...]) -> None:
        named = " or ".join((host, *groups))
        super().__init__(f"{host} is in no queue: no queue's hostlist has {named}")


class ProviderOutcomeUnknown(GridbridgeError):
    """A provider request failed or is unconfirmed; a later retry may succeed."""


class ProviderRequestRepeatable(ProviderOutcomeUnknown):
    """A failed provider request whose repetition can't make a second machine."""


class ProviderPermanentFailure(GridbridgeError):
    """A provider refused a request for good, or its answer is unreadable."""


class UnconfiguredTransferQueue(GridbridgeError):
    """A queue that calls the starter is not in gridbridge.toml."""


class UnmappableRequest(GridbridgeError):
    """A job is refused because the job requests resources that a remote cluster lacks."""


class MasterDeposed(GridbridgeError):
    """Another master leads, or may lead, so this process changes nothing."""


class MasterFoldersNotShared(GridbridgeError):
    """A folder that all masters must share is not the folder of the earlier master."""


class ArrayTasksAlreadyInLedger(GridbridgeError):
    """Root's ledger of submitted tasks has an array with other tasks, or an attempt in another array."""


class RootLedgerUnreadable(GridbridgeError):
    """Root's ledger of a campaign's submitted tasks is unreadable or incomplete."""


class CampaignFileChanged(GridbridgeError):
    """A campaign's file changed after its first use, so no more tasks are submitted."""


class CampaignFileUnreadable(GridbridgeError):
    """A campaign's file is unreadable now, so the campaign's contents are unknown."""


class CampaignEndInRootLedger(GridbridgeError):
    """A campaign is recorded as ended in root's ledger, and the owner has not resumed the campaign."""


class SpeculativeCopyRefusal(GridbridgeError):
    """A task gets no speculative copy: the owner did not allow copies, or the limit of copies is reached."""


class RemoteJobNotOurs(GridbridgeError):
    """A transfer's remote job id now belongs to another job, because the cluster uses old job ids again."""


class OwnerAccountGone(GridbridgeError):
    """An owner's account is gone, so no command ran as this person."""


class UnstageablePaths(GridbridgeError):
    """A job declares paths of files that can't be copied to or from a cluster."""


class StorageAreaUnusable(GridbridgeError):
    """A storage area or a replica in the area is unusable now, for the given reason."""


class CopyNoLongerWanted(GridbridgeError):
    """An unfinished copy was ended, because its files are no longer needed."""


class StorageAreaUnreachable(StorageAreaUnusable):
    """A storage area is unreachable or not mounted, so its contents are unknown."""


class UnsafeRemoteFolder(GridbridgeError):
    """A remote folder is missing or unsafe; `mend` is an administrator's command."""

    def __init__(self, wrong: str, mend: str) -> None:
        super().__init__(f"{wrong}; an administrator of that host runs: {mend}")
        self.wrong = wrong
        self.mend = mend


class ConflictingRemoteJobEnds(GridbridgeError):
    """The remote records of a job contradict each other, so no record says how the job ended."""


class CommandFailed(GridbridgeError):
    """A program that gridbridge ran failed.

    `status` is negative for a signal, None after a timeout. `transient`: the same call may succeed later.
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
        super().__init__(self.program_and_failure)

    @property
    def failure_in_words(self) -> str:
        """The failed program's last line of output, or its exit status or signal in words."""
        words = (self.stderr or self.stdout).decode("utf-8", "replace").strip().splitlines()
        ended = "no answer in time" if self.status is None else f"exit status {self.status}"
        return words[-1] if words else ended

    @property
    def program_and_failure(self) -> str:
        return f"{self.argv[0].rpartition('/')[2]}: {self.failure_in_words}"


class ProgramOutputTooLong(CommandFailed):
    """A program was killed because of too much output; the output is ignored."""

    def __init__(self, argv: tuple[str, ...], most_bytes: int, host: str = "") -> None:
        limit = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes >> 10} KiB"
        where = f" at {host}" if host else ""
        why = f"its output{where} is larger than {limit}, the most that is read"
        super().__init__(argv, None, b"", why.encode(), host=host)


class ProgramNotStarted(CommandFailed):
    """A local program could not be started: its file is missing or not executable."""

    def __init__(self, argv: tuple[str, ...], error: OSError) -> None:
        super().__init__(argv, 127, b"", f"{argv[0]}: {error.strerror or error}".encode())


class HostNotReached(CommandFailed):
    """The host of a program was unreachable, so no command was sent to the host."""


class SshAccessRejected(HostNotReached):
    """The remote host or the local ssh client rejected the key or account."""


class SshLoginRefused(SshAccessRejected):
    """The remote host refused this person's ssh login, so no command was sent."""


class TemporaryJobRefusal(GridbridgeError):
    """A cluster rejected a job for now; `cause` is a TransferFailureCause."""

    def __init__(self, why: str, cause: str) -> None:
        super().__init__(why)
        self.cause = cause
