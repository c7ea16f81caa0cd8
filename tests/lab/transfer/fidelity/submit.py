"""Submit many jobs at once on a lab host: JSON of cases on standard input, JSON of results out.

A shell's command line can't carry every byte that a row needs, hence this program; text is Latin-1,
one character a byte.
"""

import json
import os
import subprocess
import sys

FIRST_ID = 100  # ids of two digits could be mistaken for slots and task numbers


def main() -> None:
    """Submit in order; print qsub's exit status and output for each case."""
    cell, cases = json.load(sys.stdin)
    while int(burn(cell)) < FIRST_ID:
        pass
    os.umask(0o022)
    json.dump([submit(cell, case) for case in cases], sys.stdout)


def burn(cell: dict[str, str]) -> str:
    env = os.environ | cell
    argv = ["qsub", "-terse", "-h", "-b", "y", "-o", "/dev/null", "-j", "y", "true"]
    number = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    subprocess.run(["qdel", number.strip()], env=env, capture_output=True, check=True)
    return number


def submit(cell: dict[str, str], case: dict[str, object]) -> list[object]:
    folder = str(case["folder"])
    os.makedirs(folder)
    env = os.environ | cell
    subprocess.run(["sh", "-ec", case["before"]], cwd=folder, env=env, check=True)
    with open(f"{folder}/script", "wb") as script:
        script.write(raw(case["script"]))
    own = {raw(name): raw(value) for name, value in case["environment"].items()}
    done = subprocess.run(
        [raw(word) for word in case["argv"]],
        env={os.fsencode(name): os.fsencode(value) for name, value in env.items()} | own,
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return [done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")]


def raw(text: object) -> bytes:
    """Return the bytes that a Latin-1 text represents."""
    return str(text).encode("latin-1")


if __name__ == "__main__":
    main()
