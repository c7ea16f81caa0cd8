"""Name every difference between a row's results at home and through the transfer queue."""

import json
import re
from typing import TypeVar

from tests.lab.transfer.fidelity.run import File, Record, Side

Difference = tuple[str, str]
Differences = set[Difference]
T = TypeVar("T")

MEASURED = (  # differ between any two runs of the same job
    "qsub_time",
    "start_time",
    "end_time",
    "ru_wallclock",
    "ru_utime",
    "ru_stime",
    "ru_maxrss",
    "ru_minflt",
    "ru_majflt",
    "ru_inblock",
    "ru_oublock",
    "ru_nvcsw",
    "ru_nivcsw",
    "ru_idrss",
    "ru_isrss",
    "ru_ixrss",
    "ru_ismrss",
    "ru_nswap",
    "ru_msgsnd",
    "ru_msgrcv",
    "ru_nsignals",
    "cpu",
    "mem",
    "io",
    "iow",
    "maxvmem",
)
PLACES = {  # where they are is one difference, what is there is compared
    "place of the script": r"/var/spool/gridengine/beta/execd/@HOST@/job_scripts/@JOB@"
    r"|/tmp/@(?:JOB|REMOTE)@\.\d+\.\w+\.q/\.gridbridge/@JOB@",
    "name of TMPDIR": r"/tmp/@(JOB|REMOTE)@\.\d+\.\w+\.q",
    "name of the spool folder": r"(?<=/active_jobs/)@(JOB|REMOTE)@\.\d+",
}
MAIL_MEASURED = ("Start Time", "End Time", "User Time", "System Time", "Wallclock Time", "CPU", "Max vmem")


def compare(sides: tuple[Side, Side]) -> dict[str, tuple[str, str]]:
    """Return the pairs of differing values at home and away, by the name of the difference."""
    here, away = (plain(side) for side in sides)
    names = sorted({*here, *away})
    return {
        name.partition(" #")[0]: (here.get(name, "(none)"), away.get(name, "(none)"))
        for name in names
        if here.get(name) != away.get(name)
    }


def plain(side: Side) -> dict[str, str]:
    """Return all compared values by name; values that differ in every run are left out."""
    clean = Cleaner(side)
    status, out, err = side.submitted
    values = {"qsub status": str(status), "qsub says": clean(out + err)}
    values["end"] = side.end
    values["error reason"] = clean(side.reason)
    values |= dict(pair for item in enumerate(side.accounting) for pair in accounted(*item, clean))
    values |= dict(pair for item in enumerate(mails(side, clean)) for pair in mailed(*item))
    for path, file in sorted(side.files.items()):
        if path == "script":
            continue
        if path.startswith("seen."):
            values |= looked(path, file, clean)
        else:
            values |= left(clean(path), file, clean)
    return values | clean.seen


class Cleaner:
    def __init__(self, side: Side) -> None:
        self.seen: dict[str, str] = {}
        self.words = [(r"\d\d/\d\d/\d{4} [\d:]{8} \[\d+:\d+\]", "@TIME@"), (r"(?<=^\*)\d+(?=\*)", "@PID@")]
        self.words += [(re.escape(side.folder), "@DIR@")]
        self.words.append((re.escape("-".join(side.folder.split("/")[-3:])), "@MAIL@"))
        self.words += [(re.escape(side.folder.rpartition("/")[0]), "@SIDE@")]
        self.words += [(r"beta-n\d", "@HOST@")]
        if side.job:
            self.words.append((rf"(?<!\d){side.job}(?!\d)", "@JOB@"))
        self.words += [(rf"(?<!\d){number}(?!\d)", "@REMOTE@") for number in side.remote_ids]

    def __call__(self, text: str) -> str:
        for pattern, name in self.words:
            text = re.sub(pattern, name, text)
        for name, pattern in PLACES.items():
            if found := re.search(pattern, text):
                self.seen[name] = re.sub(r"(?<=\.)\d+(?=\.)|\d+$", "@TASK@", found[0])
                text = re.sub(pattern, f"@{name}@", text)
        return text


def accounted(number: int, record: Record, clean: Cleaner) -> list[tuple[str, str]]:
    which = f"{record['taskid']}.{number}" if record["taskid"] == "undefined" else record["taskid"]
    which = "" if which == "undefined.0" else f" #{which}"
    fields = [(name, value) for name, value in record.items() if name not in MEASURED]
    return [(f"accounting {name}{which}", clean(value)) for name, value in fields]


def mails(side: Side, clean: Cleaner) -> list[str]:
    """Return the mails in an order that does not depend on time."""
    return sorted(clean(mail) for mail in side.mails)


def mailed(number: int, mail: str) -> list[tuple[str, str]]:
    lines = [line for line in mail.splitlines() if line.strip()]
    pairs = [re.match(r" ?([A-Za-z ]+?) *[:=] *(.*)", line) for line in lines]
    values = [(found[1], found[2]) if found else ("text", line) for found, line in zip(pairs, lines, strict=True)]
    return [(f"mail {name} #{number}", value) for name, value in values if name not in MAIL_MEASURED]


def looked(path: str, file: File, clean: Cleaner) -> dict[str, str]:
    seen = json.loads(file.content)
    task, restarted = path.split(".")[1:3]
    which = "" if (task, restarted) == ("undefined", "0") else f" #{task}.{restarted}"
    environment = seen.pop("environment")
    values = {f"environment {name}{which}": clean(value) for name, value in environment.items()}
    values[f"limits{which}"] = json.dumps(seen.pop("limits"))  # a limit may be equal to a job's number
    return values | {f"{name}{which}": clean(json.dumps(value)) for name, value in seen.items()}


def left(path: str, file: File, clean: Cleaner) -> dict[str, str]:
    return {f"file {path}": f"{file.mode} {clean(file.content)}"}
