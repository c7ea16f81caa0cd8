"""A program that runs beside ours and ends when we end."""

import subprocess

DIE_WITH_US = ("/usr/bin/setpriv", "--pdeathsig", "TERM")


class ChildProgram:
    """A long-running program; ended when we end, whatever ends us."""

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
        """Say whether it still runs; reaps it if not."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it and wait for that."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
