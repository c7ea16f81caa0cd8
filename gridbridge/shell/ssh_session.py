"""Sends all requests of a short program to a host through one ssh client, to save logins."""

import fcntl
import os
import select
import termios
import time

from gridbridge.errors import ProgramNotStarted, ProgramOutputTooLong
from gridbridge.model.transfer_route import BARE, SshLogin
from gridbridge.shell import program_runs
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.shell.ssh import FAILED, TOKENS, OpenSshClient, remote_shell_ssh_command

NUMBER_BYTES = 4  # bytes of the result of FIONREAD (ioctl_tty(2))


class SshClientProcess:
    __slots__ = ("argv", "errors", "output", "pid", "theirs", "to_it")

    def __init__(self, argv: tuple[str, ...]) -> None:
        self.argv = argv
        (self.output, self.errors), child_ends = program_runs.open_output_pipes()
        self.theirs, self.to_it = os.pipe()  # `theirs` stays open, so that unread bytes can be counted
        os.set_blocking(self.to_it, False)
        try:
            self.pid = program_runs.spawn_program(argv, BARE, [self.theirs, *child_ends])
        except OSError as error:
            self._close_client_streams()
            raise ProgramNotStarted(argv, error) from error
        finally:
            program_runs.close_file_descriptors(child_ends)

    def unread_input_bytes(self) -> int:
        size = fcntl.ioctl(self.theirs, termios.FIONREAD, bytes(NUMBER_BYTES))
        return int.from_bytes(size, "little")

    def kill_ssh_client(self) -> None:
        """Kill the ssh client, and close its streams."""
        program_runs.kill_program_session(self.pid)
        self._close_client_streams()

    def _close_client_streams(self) -> None:
        program_runs.close_file_descriptors([self.output, self.errors, self.theirs, self.to_it])


class SshSessionsOfProgram(OpenSshClient):
    """Keeps one ssh connection open for each login, until the program ends."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, ...], SshClientProcess] = {}

    def begin_ssh_login(self, login: SshLogin) -> None:
        """Log in by ssh before the first request; raise ProgramNotStarted if ssh can't be started."""
        argv = remote_shell_ssh_command(login)
        if argv not in self._lines:
            self._lines[argv] = SshClientProcess(argv)

    def run_ssh_request(
        self, login: SshLogin, token: str, request: bytes, timeout_s: float, most_bytes: int = program_runs.ANSWER_BYTES
    ) -> tuple[CompletedProgram, bool]:
        """Run a request; return the result, and whether nothing was sent."""
        deadline = time.monotonic() + timeout_s
        argv = remote_shell_ssh_command(login)
        line = self._lines.pop(argv, None) or SshClientProcess(argv)
        exchange = SshSessionRequest(line, token, request, most_bytes)
        if exchange.exchange_messages_until(deadline):
            self._lines[argv] = line
            return exchange.partial_ssh_answer(), False
        is_unread = line.unread_input_bytes() == exchange.written
        line.kill_ssh_client()
        if exchange.is_answer_too_long:
            raise ProgramOutputTooLong(argv, most_bytes, login.host)
        return exchange.partial_ssh_answer(), is_unread


class SshSessionRequest:
    def __init__(
        self, line: SshClientProcess, token: str, request: bytes, most_bytes: int = program_runs.ANSWER_BYTES
    ) -> None:
        self._line = line
        self._token = token.encode()
        self._most_bytes = most_bytes
        self._request = request
        self.written = 0
        self._read = {line.output: bytearray(), line.errors: bytearray()}
        self._awaited = dict(zip(self._read, TOKENS, strict=True))
        self._poll = select.poll()
        self._poll.register(line.to_it, select.POLLOUT)
        for end in self._read:
            self._poll.register(end, select.POLLIN)
        self._open = set(self._read)

    def exchange_messages_until(self, deadline: float) -> bool:
        """Write a request, and read the whole answer; return False after a failure or at the deadline."""
        try:
            while self._open and any(self._awaited.values()) and not self.is_answer_too_long:
                for end, _ in self._poll.poll(program_runs.remaining_ms_until_deadline(deadline)):
                    self._read_answer_from_stream(end) if end in self._read else self._write_rest_of_request()
        except TimeoutError:
            return False
        return bool(self._open) and not self.is_answer_too_long

    @property
    def is_answer_too_long(self) -> bool:
        return sum(map(len, self._read.values())) > self._most_bytes

    def partial_ssh_answer(self) -> CompletedProgram:
        """Return the part of the answer that was read; the exit status of the ssh client is unknown."""
        return CompletedProgram(self._line.argv, FAILED, *map(bytes, self._read.values()))

    def _write_rest_of_request(self) -> None:
        self.written += os.write(self._line.to_it, self._request[self.written :])
        if self.written == len(self._request):
            self._poll.unregister(self._line.to_it)

    def _read_answer_from_stream(self, end: int) -> None:
        chunk = os.read(end, program_runs.CHUNK_BYTES)
        read = self._read[end]
        begin = max(0, len(read) - len(self._token) + 1)  # a token may arrive in two pieces
        read += chunk
        self._awaited[end] -= read.count(self._token, begin)
        if not chunk:
            self._poll.unregister(end)
            self._open.discard(end)
