"""Lines of scripts, and what qsub of Grid Engine 8.1.9 took from them, in the words of `qstat -j`.

tests/lab/campaigns/test_scripts.py asks a real one for the same.
"""

import tomllib
from pathlib import Path

NAME, JOIN, TASKS = "job_name", "merge", "job-array tasks"
OUT, ERR, SHELL = "stdout_path_list", "stderr_path_list", "shell_list"
HARD, VARIABLES, WORK = "hard resource_list", "env_list", "cwd"

LINES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
TAKEN: dict[str, dict[str, str]] = LINES["taken"]
REFUSED: tuple[str, ...] = (*LINES["refused"]["options"], "-N " + "x" * 513)
