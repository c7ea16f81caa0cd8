"""A child process that is terminated when its parent process ends."""

import subprocess

DIE_WITH_US = ("/usr/bin/setpriv", "--pdeathsig", "TERM")


class ChildEndingWithParent:
    """A long-running child process; the kernel terminates it when its parent dies."""

    def __init__(self, argv: tuple[str, ...], env: dict[str, str], folder: str) -> None:
        self._process = subprocess.Popen(
            (*DIE_WITH_US, *argv),
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def is_alive(self) -> bool:
        """Say whether the child process still runs; reap it if it has ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """Terminate the child process and wait until it has ended."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
