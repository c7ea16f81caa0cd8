"""The load sensor: passes the poller's published load values on to execd (sge_execd(8)).

execd writes one newline for each report that it wants and reads the answer with fscanf, so a report
is one write of at most PIPE_BUF bytes, and newlines that piled up get one answer. When the
published values are stale the answer has values that close every queue (model.transfer.load), or
none where none was known, which does as well: the sensor fails closed. It runs as root, and so
reads nothing that a user could have written: the published files are owned by the service account
and found through its folder. After an answer it starts a poller if none runs, and kills one that
hangs.
"""

import os
import time

from gridbridge.errors import GridbridgeError, StateError, plain_words
from gridbridge.model.places import HOME, PYTHON, SENSOR_LOG
from gridbridge.model.transfer.load_values import closed
from gridbridge.shell import poller_lock
from gridbridge.state import published_values

START_AGAIN_S = 10  # a poller that dies at once is not started more often than this
HUNG_S = 60  # a poller without a sign of life for this time hangs; shorter where stale_s is low
PIPE_BUF = 4096  # what one write puts into a pipe whole (pipe(7)); as Linux has it
QUIT, REPORT, NOTHING_YET = "quit", "report", ""  # what execd asks for
LINE_MAX = 64  # bytes; none of execd's words is as long
POLLER = (PYTHON, "-I", "-c", "from gridbridge.transfer.poller.program import main; main()")
CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def main() -> None:
    """Answer execd until it says quit or goes away."""
    Sensor(os.environ.get("HOST", "")).serve()


class Sensor:
    """One host's sensor; it remembers what it has logged, and when it started a poller."""

    def __init__(
        self,
        host: str,
        home: str = HOME,
        log: str = SENSOR_LOG,
        poller: tuple[str, ...] = POLLER,
    ) -> None:
        self._host = host
        self._home = home
        self._log = log
        self._poller = poller
        self._told = ""
        self._names: list[str] = []  # of the load values, as they were last seen
        self._started = -1.0e9
        self._hung_s: float = HUNG_S
        self._beat = 0.0  # the poller's last sign of life
        self._silent_s = 0.0  # how long we have seen that one
        self._looked = 0.0

    def serve(self) -> None:
        """Answer each request, and look after the poller only after that."""
        requests = SensorRequests()
        while came := os.read(0, 65536):
            request = requests.take(came)
            if request == QUIT:
                return
            if request == REPORT:
                try:
                    os.write(1, self.report(time.time()))
                except BrokenPipeError:
                    return
                self.see_to_poller()

    def report(self, now: float) -> bytes:
        """Return one whole report; its values close every queue when none are fresh."""
        try:
            report = self._report(self._values(now))
        except (OSError, GridbridgeError) as error:
            self._log_trouble(plain_words(error))
            return self._report(closed(self._names))
        self._log_trouble("")
        return report

    def _values(self, now: float) -> dict[str, str]:
        owner = os.stat(self._home).st_uid
        if owner == 0:
            raise StateError(f"{self._home} is root's: it has to be the service account's")
        path = published_values.load_path(f"{self._home}/published")
        values, stale_s, is_fresh = published_values.load(path, now, owner)
        self._hung_s = min(HUNG_S, 2 * stale_s)
        if max(map(len, (self._report(values), self._report(closed(list(values)))))) > PIPE_BUF:
            raise StateError(f"{path}: a report has at most {PIPE_BUF} bytes")
        self._names = list(values)
        if not is_fresh:
            raise StateError(f"{path}: stale, the queues are closed")
        return values

    def _report(self, values: dict[str, str]) -> bytes:
        lines = "".join(f"{self._host}:{name}:{value}\n" for name, value in values.items())
        return f"begin\n{lines}end\n".encode("ascii", "replace")

    def see_to_poller(self) -> None:
        """Start the poller when none runs, and not again for a while; end one that hangs."""
        path = f"{self._home}/poller.lock"
        if self._hangs(poller_lock.last_beat(path), time.time(), time.monotonic()):
            self._replace(path)
        if time.monotonic() - self._started < START_AGAIN_S or poller_lock.is_held(path):
            return
        self._started = time.monotonic()
        try:
            start(self._poller, self._home)
        except OSError as error:  # no process can be had now; a later look tries again
            self._log_trouble(f"no poller could be started: {error.strerror}")

    def _hangs(self, beat: float, now: float, passed: float) -> bool:
        """Say whether the poller gave no sign of life for long, by a clock that nobody sets.

        A sign with a future time announces a silence until then. Time in which we did not look
        counts little: the poller may have been frozen with us, and go on as we do.
        """
        step, self._looked = passed - self._looked, passed
        is_heard = beat != self._beat or beat > now
        self._beat = beat
        self._silent_s = 0.0 if is_heard else self._silent_s + min(step, self._hung_s / 2)
        return self._silent_s > self._hung_s

    def _replace(self, path: str) -> None:
        """End the poller that hangs; a later look starts another one."""
        from gridbridge.shell import lock_holder  # seldom needed

        self._silent_s = 0.0
        if pid := lock_holder.kill(path):
            self._log_trouble(f"poller {pid} gave no sign of life for {self._hung_s:g} s: killed")

    def _log_trouble(self, trouble: str) -> None:
        """Log a new failure, or its end: execd sends our standard error to /dev/null."""
        if trouble == self._told:
            return
        self._told = trouble
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{at} {trouble or 'well again'}\n".encode("utf-8", "replace")
        try:
            end = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
            try:
                os.write(end, line)
            finally:
                os.close(end)
        except OSError:
            return


class SensorRequests:
    """execd's lines, however they are cut: a pipe keeps bytes in order, and nothing else."""

    def __init__(self) -> None:
        self._begun = b""

    def take(self, came: bytes) -> str:
        """Return what the lines ask for that are whole by now; several ask for one report."""
        *lines, begun = (self._begun + came).split(b"\n")
        self._begun = begun[-LINE_MAX:]
        if any(line.strip() == QUIT.encode() for line in lines):
            return QUIT
        return REPORT if lines else NOTHING_YET


def start(program: tuple[str, ...], home: str) -> None:
    """Start the poller as the service account, in a session of its own and without our pipes.

    Our own uid stays root: execd can't kill a sensor that changed it, and would wait for ever.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            _become(program, home)
    finally:
        os._exit(0)


def _become(program: tuple[str, ...], home: str) -> None:
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
