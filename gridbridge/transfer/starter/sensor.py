"""Run the load sensor, which passes the poller's load values on to execd (sge_execd(8)), as root.

If the published values are too old, the sensor reports values that close every transfer queue. Root reads only files of
the service's account. Each report is a single write of at most PIPE_BUF bytes, because execd reads with fscanf.
"""

import os
import time

from gridbridge.errors import GridbridgeError, StateError, describe_error
from gridbridge.model.fixed_paths import HOME, PYTHON, SENSOR_LOG
from gridbridge.model.transfer.transfer_queue_load_values import queue_closing_load_values
from gridbridge.shell import program_lock_file
from gridbridge.state import published_file_formats

START_AGAIN_S = 10
HUNG_S = 60  # a poller without a sign of life for this time counts as hung
PIPE_BUF = 4096  # bytes of the largest atomic write to a pipe (pipe(7))
QUIT, REPORT, NOTHING_YET = "quit", "report", ""  # what execd may request
LINE_MAX = 64  # largest length of a line in bytes; execd's requests are shorter
POLLER = (PYTHON, "-I", "-c", "from gridbridge.transfer.poller.program import main; main()")
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def main() -> None:
    """Answer execd's requests for load reports until execd says quit or ends."""
    HostLoadSensor(os.environ.get("HOST", "")).answer_execd_requests()


class HostLoadSensor:
    """The load sensor of a host, which also starts and replaces the poller."""

    def __init__(self, host: str, home: str = HOME, log: str = SENSOR_LOG, poller: tuple[str, ...] = POLLER) -> None:
        self._host, self._home, self._log, self._poller = host, home, log, poller
        self._told = ""
        self._names: list[str] = []
        self._started = -1.0e9
        self._hung_s: float = HUNG_S
        self._beat = self._looked = 0.0  # times of the poller's last sign of life and of the last check
        self._silent_s = 0.0  # time without a new sign of life of the poller

    def answer_execd_requests(self) -> None:
        """Answer each request of execd, and check the poller after each answer."""
        requests = ExecdRequestLineBuffer()
        while came := os.read(0, 65536):
            request = requests.next_execd_request(came)
            if request == QUIT:
                return
            if request == REPORT:
                try:
                    os.write(1, self.load_report(time.time()))
                except BrokenPipeError:
                    return
                self.start_or_replace_poller()

    def load_report(self, now: float) -> bytes:
        """Return a load report; without fresh load values, a report that closes every transfer queue."""
        try:
            report = self._format_report(self._read_load_values_of_poller(now))
        except (OSError, GridbridgeError) as error:
            self._log_sensor_trouble(describe_error(error))
            return self._format_report(queue_closing_load_values(self._names))
        self._log_sensor_trouble("")
        return report

    def _read_load_values_of_poller(self, now: float) -> dict[str, str]:
        owner = os.stat(self._home).st_uid
        if owner == 0:
            raise StateError(f"{self._home}: owned by root; expected the service account")
        path = published_file_formats.load_values_path(f"{self._home}/published")
        values, stale_s, is_fresh = published_file_formats.read_load_values_and_freshness(path, now, owner)
        self._hung_s = min(HUNG_S, 2 * stale_s)
        if (
            max(map(len, (self._format_report(values), self._format_report(queue_closing_load_values(list(values))))))
            > PIPE_BUF
        ):
            raise StateError(f"{path}: report too long; expected at most {PIPE_BUF} bytes")
        self._names = list(values)
        if not is_fresh:
            raise StateError(f"{path}: stale load values, the queues are closed")
        return values

    def _format_report(self, values: dict[str, str]) -> bytes:
        lines = "".join(f"{self._host}:{name}:{value}\n" for name, value in values.items())
        return f"begin\n{lines}end\n".encode("ascii", "replace")

    def start_or_replace_poller(self) -> None:
        """Start a missing poller, at most every 10 s, and kill a hung poller."""
        path = f"{self._home}/poller.lock"
        if self._does_poller_hang(program_lock_file.last_lock_file_heartbeat(path), time.time(), time.monotonic()):
            self._kill_hung_poller(path)
        if time.monotonic() - self._started < START_AGAIN_S or program_lock_file.is_lock_file_held(path):
            return
        self._started = time.monotonic()
        try:
            start_poller(self._poller, self._home)
        except OSError as error:  # the next check starts a poller again
            self._log_sensor_trouble(f"no poller could be started: {error.strerror}")

    def _does_poller_hang(self, beat: float, now: float, passed: float) -> bool:
        """Say whether the poller has given no sign of life for longer than the limit.

        If a sign of life has a future time, the poller has announced a silence. A pause of the sensor itself counts as
        at most half of the limit, because the host may have been frozen.
        """
        step, self._looked = passed - self._looked, passed
        is_heard = beat != self._beat or beat > now
        self._beat = beat
        self._silent_s = 0.0 if is_heard else self._silent_s + min(step, self._hung_s / 2)
        return self._silent_s > self._hung_s

    def _kill_hung_poller(self, path: str) -> None:
        from gridbridge.shell import hung_poller_kill  # rarely needed

        self._silent_s = 0.0
        if pid := hung_poller_kill.kill_poller_lock_holder(path):
            self._log_sensor_trouble(f"poller {pid} gave no sign of life for {self._hung_s:g} s: killed")

    def _log_sensor_trouble(self, trouble: str) -> None:
        """Log a new failure and its end in a file, because execd discards the sensor's standard error."""
        if trouble == self._told:
            return
        self._told = trouble
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{at} {trouble or 'recovered'}\n".encode("utf-8", "replace")
        try:
            end = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
            with open(end, "wb", buffering=0) as file:
                file.write(line)
        except OSError:
            return


class ExecdRequestLineBuffer:
    """Joins the parts in which a pipe may deliver execd's lines."""

    def __init__(self) -> None:
        self._begun = b""

    def next_execd_request(self, came: bytes) -> str:
        """Return QUIT if a complete line is `quit`, REPORT for another complete line, otherwise NOTHING_YET."""
        *lines, begun = (self._begun + came).split(b"\n")
        self._begun = begun[-LINE_MAX:]
        if any(line.strip() == QUIT.encode() for line in lines):
            return QUIT
        return REPORT if lines else NOTHING_YET


def start_poller(program: tuple[str, ...], home: str) -> None:
    """Start the poller as the service's account, in its own session and with its own log.

    The sensor's own uid stays root: execd can't kill a sensor with another uid, and would wait for it forever.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            _become_poller_process(program, home)
    finally:
        os._exit(0)


def _become_poller_process(program: tuple[str, ...], home: str) -> None:
    os.setsid()
    owner = os.stat(home)
    if os.getuid() == 0:
        os.setgroups([owner.st_gid])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    if os.getuid() == 0:
        return
    log = os.open(f"{home}/poller.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open("/dev/null", os.O_RDONLY)
    for end, number in ((null, 0), (log, 1), (log, 2)):
        os.dup2(end, number)
    os.closerange(3, 1 << 16)
    os.umask(0o022)
    os.chdir("/")
    os.execve(program[0], program, CLEAN | {"HOME": home})  # noqa: S606 - no shell wanted
