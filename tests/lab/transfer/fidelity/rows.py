"""The rows of the fidelity test: one qsub each, run at beta directly and through transfer-beta.

Text is Latin-1, a character a byte. @PROBE@ stands for the probe's command, @DIR@ for the side's
folder, @MAIL@ for its mailbox.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

LOOK = '@PROBE@ "$0" "$@"\n'
EVERY_BYTE = "".join(map(chr, [*range(1, 10), *range(11, 256)]))
SHELL_WORDS = (
    *("a b", "'", '"', "\"quoted\" 'both'", "", "$HOME", "`id`", "$(id)", "*", "?", "[a]", "~"),
    *("\\", "\\n", "a\\ b", ";", "&", "|", "<", ">", "(", ")", "{a,b}", "!", "#", "%s", "=", ":"),
    *("tab\there", "two\nlines", "end\n", "\nstart", "\xc3\xa9", "caf\xe9", "-x", "--", "a=b"),
)
AGAIN = f"""[ -e again ] && exit 0
{LOOK}echo $RESTARTED
[ -e marker ] && : >again && exit 0
: >marker
: >ready
until [ -e go ]; do sleep 0.2; done
exit 99
"""
HOLD = 'qalter -h o "$1" && : >@DIR@/go'
SLOTS = "echo $PE $NSLOTS; awk '{n += $2} END {print n}' $PE_HOSTFILE\n"
SPIN = "trap 'echo xcpu; exit 5' XCPU\nwhile :; do :; done\n"
COUNT = """n=0
trap '' SIGNAL
(until [ -e got ]; do sleep 0.2; done; sleep 3) &
trap 'n=1; : >got' SIGNAL
: >ready
while kill -0 $! 2>/dev/null; do wait; done
echo $n
exit 4
"""  # whether a signal came; how often depends on the load


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One qsub call: the options, then the command of the script or binary."""

    name: str
    options: tuple[str, ...] = ()
    script: str = LOOK
    command: tuple[str, ...] = ("script",)
    environment: Mapping[str, str] = field(default_factory=dict)  # of qsub
    before: str = ":"  # sh in the folder, before it is submitted
    queue: str = ""  # which of the extra pairs of queues
    then: tuple[str, ...] = ()  # what root does to the job once it has made `ready`
    at_last: tuple[str, ...] = ()  # what root does to the job once all others are over
    is_stuck: bool = False  # it ends in error state


def row(name: str, *options: str, **values: object) -> Row:
    return Row(name=name, options=("-cwd", *options), **values)  # type: ignore[arg-type]


def binary(name: str, *command: str, options: tuple[str, ...] = (), **values: object) -> Row:
    return row(name, "-b", "y", *options, command=command, **values)


def variables(name: str, *options: str, **environment: str) -> Row:
    return row(name, *options, environment=environment)


def exits(status: int, **values: object) -> Row:
    return row(f"exit-{status}", script=f"{LOOK}exit {status}\n", **values)


def dies(signal: str) -> Row:
    return row(f"signal-{signal}", script=f"{LOOK}ulimit -c 0\nkill -{signal} $$\nsleep 1\n")


SCRIPTS = (
    row("plain", script="#!/bin/sh\necho out\necho err >&2\n" + LOOK),
    row("arguments", command=("script", *SHELL_WORDS)),
    row("argument-of-every-byte", command=("script", EVERY_BYTE)),
    row("removes-its-folder", script=LOOK + "rm -rf $TMPDIR\nexit 7\n"),
    row("removes-its-folder-and-dies", script=LOOK + "rm -rf $TMPDIR\nkill -9 $$\nsleep 1\n"),
    row("no-newline-at-end", script=LOOK.rstrip("\n")),
    row("here-document-at-end", script=LOOK + "cat <<'EOF'\nlast line\nEOF"),
    row("crlf", script="#!/bin/sh\r\necho out\r\n@PROBE@ x\r\n"),
    row("script-of-odd-bytes", script=LOOK + "printf '%s' '" + EVERY_BYTE.replace("'", "") + "'\n"),
    row("script-reads-itself", script=LOOK + 'cat "$0" | tail -c +100 | head -c 30; head -1 "$0"\n'),
    row("large-script", script=LOOK + "# a comment of fifty characters is what this is\n" * 20000),
    row("directives", script="#$ -N inside -o told -j y\n#$ -v A=1,B=2\n#$ -t 1-3:2\n" + LOOK),
    row("directive-prefix", "-C", "#%%", script="#%% -N other\n#$ -N wrong\n" + LOOK),
    row("no-directives", "-C", "", script="#$ -N wrong\n" + LOOK),
    row("script-of-its-own-shebang", script="#!/usr/bin/python3\necho sh all the same\n" + LOOK),
)
SHELLS = (
    row("bash", "-S", "/bin/bash", script=LOOK + "shopt login_shell; echo $BASH_VERSION\n"),
    row("restricted-bash", "-S", "/bin/rbash", script=LOOK + "shopt login_shell\n"),
    row("dash", "-S", "/bin/dash", script=LOOK + "echo $-\n"),
    row(
        "python",
        "-S",
        "/usr/bin/python3",
        command=("script", "a b", "c"),
        script="import sys, os\nprint(sys.argv)\nos.system('@PROBE@')\n",
    ),
    row("csh", "-S", "/bin/csh", script="@PROBE@ $0 $argv:q\necho $?prompt $?loginsh\nexit 3\n"),
    row("tcsh", "-S", "/bin/tcsh", command=("script", "a b"), script="@PROBE@ $argv:q\nexit 4\n"),
    row("ksh", "-S", "/bin/ksh", script=LOOK),
    row("env-as-shell", "-S", "/usr/bin/env", script="#!/bin/sh\n" + LOOK),
    row("missing-shell", "-S", "/no/such/shell", is_stuck=True),
    row("unix-python", script="#!/usr/bin/python3 -I\nimport os\nos.system('@PROBE@')\n", queue="unix"),
    row("unix-sh", command=("script", "a b", ""), script="#!/bin/sh -u\n" + LOOK, queue="unix"),
    row("unix-no-shebang", script=LOOK, queue="unix"),
    row("stdin", command=("script", *SHELL_WORDS), script='@PROBE@ "$@"\n', queue="stdin"),
    row("stdin-bash", "-S", "/bin/bash", script="read line\nnot a command\necho $line\n@PROBE@\n", queue="stdin"),
    row("stdin-reads-on", script="@PROBE@\ncat\nthis is text\nof the script\n", queue="stdin"),
)
BINARIES = (
    binary("binary", "@PROBE@ 'one word' $HOME \"$JOB_ID\" *"),
    binary("binary-words", "/bin/echo", "$HOME", "*", "a  b", "'q  q'", "", ";", "echo", "x"),
    binary("binary-pipe", "echo $JOB_NAME | tr a-z A-Z; exit 5"),
    binary("binary-syntax-error", "echo 'unfinished"),
    binary("binary-bash", "echo ${BASH_VERSION:0:1} $0", options=("-S", "/bin/bash")),
    binary("binary-csh", "echo $shell:t; echo $0", options=("-S", "/bin/csh")),
    binary("binary-python", "print('hello')", options=("-S", "/usr/bin/python3")),
    binary("binary-dash", "echo $0 $-; @PROBE@", options=("-S", "/bin/dash")),
    binary("binary-missing", "/no/such/program"),
    binary("binary-unix", "@PROBE@", "$HOME", queue="unix"),
    binary("binary-stdin", "@PROBE@", "$HOME", queue="stdin"),
    binary("binary-script", "./tool", "a b", before="printf '#!/bin/sh\\n%s' '@PROBE@ \"$@\"' >tool; chmod +x tool"),
    binary(
        "no-shell",
        "/usr/bin/python3",
        "-I",
        "@PROBEFILE@",
        "@DIR@",
        "$HOME",
        "*",
        "a  b",
        "",
        "'q'",
        options=("-shell", "n"),
    ),
    binary("no-shell-words", "/bin/echo", *SHELL_WORDS, options=("-shell", "n")),
    binary("no-shell-by-name", "hostname", "-s", options=("-shell", "n")),
    binary("no-shell-missing", "/no/such/program", options=("-shell", "n"), is_stuck=True),
    binary("no-shell-missing-name", "nosuchprogram", options=("-shell", "n"), is_stuck=True),
    binary("no-shell-v-path", "hostname", "-s", options=("-shell", "n", "-v", "PATH=/bin")),
    binary(
        "no-shell-script",
        "./tool",
        "a b",
        before="printf '#!/bin/sh\\n%s' '@PROBE@ \"$0\" \"$@\"' >tool; chmod +x tool",
        options=("-shell", "n"),
    ),
)
NAMES = tuple(
    row(f"name-{title}", "-N", name)
    for title, name in {
        "dollar": "we$ird",
        "semicolon": "a;b",
        "quotes": 'it\'s"so"',
        "dash": "-x",
        "percent": "a%sb",
        "brackets": "<a>&[b]",
        "latin-1": "caf\xe9",
        "utf-8": "\xc3\xa9t\xc3\xa9",
        "long": "n" * 200,
        "comma": "a,b",
        "equals": "a=b",
        "backquote": "a`id`b",
        "hash": "#a",
        "tilde": "~",
        "dots": "..a",
        "space": "a b",
    }.items()
)
PLACES = (
    Row(name="home", options=("-N", "fidelity-home", "-o", "@DIR@", "-j", "y")),
    Row(name="wd", options=("-wd", "@DIR@/below it"), before="mkdir 'below it'"),
    row("stdin-file", "-i", "@DIR@/input", script=LOOK + "cat\n", before="printf 'one\\ntwo' >input"),
    row("stdin-empty", script=LOOK + "cat; echo end\n"),
    row("stdin-file-missing", "-i", "@DIR@/missing", is_stuck=True),
    row("output-files", "-o", "out", "-e", "err", script="echo o; echo e >&2\n" + LOOK),
    row("output-appended", "-o", "out", "-j", "y", before="echo before >out; chmod 600 out", script="echo after\n"),
    row("output-folder", "-o", "folder", "-e", "folder", before="mkdir folder", script="echo o; echo e >&2\n"),
    row("output-pseudo", "-o", "@DIR@/$USER-$JOB_ID-$JOB_NAME-$TASK_ID.$HOME", "-j", "y", "-t", "2-3", before="true"),
    row("output-home", "-o", "$HOME/@MAIL@.out", "-j", "y", script="echo out\n"),
    row("output-host", "-o", "@DIR@/on-$HOSTNAME", "-j", "y", script="echo out\n"),
    row("output-blank", "-o", "@DIR@/a b  c", "-e", "@DIR@/it's $x;y", script="echo o; echo e >&2\n"),
    row("output-colon", "-o", "@DIR@/a:b", "-j", "y", script="echo o\n"),
    row("output-host-colon", "-o", ":@DIR@/a:b", "-j", "y", script="echo o\n"),
    row("output-latin-1", "-o", "@DIR@/caf\xe9", "-j", "y", script="echo o\n"),
    row("output-percent", "-o", "@DIR@/50%s", "-j", "y", script="echo o\n"),
    row("output-relative", "-o", "sub/out", "-j", "y", before="mkdir sub", script="echo o\n"),
    row("output-same-twice", "-o", "both", "-e", "both", script="echo o; echo e >&2; echo o\n"),
    row("output-link", "-o", "link", "-j", "y", before="ln -s real link", script="echo o\n"),
    row("output-null", "-o", "/dev/null", "-e", "/dev/null"),
    row("output-refused", "-o", "/nobody/here", is_stuck=True),
    row("output-folder-missing", "-o", "@DIR@/missing/out", is_stuck=True),
    row("cwd-missing", "-wd", "/home/alice/no such folder", is_stuck=True),
    row("large-output", "-j", "y", script="seq 1 700000; echo end >&2; seq 1 100\n"),
    row("merged-order", "-j", "y", script="for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done\n"),
    row("truncated", "-o", "out", "-j", "y", script="echo one; : >out; echo two\n"),
    row("umask", script="umask 077; umask; touch made; " + LOOK),
    row("child-left", script=LOOK + "sleep 300 >/dev/null 2>&1 &\nexit 0\n"),
    row("child-left-with-output", script="(sleep 300; echo late) &\necho out\n"),
)
ENVIRONMENT = (
    row("v-values", "-v", "PLAIN=a,EMPTY=,EQUALS=a=b=c,BLANK=a b,QUOTE='a\"b',DOLLAR=$HOME`id`"),
    row("v-from-qsub", "-v", "FROM,MISSING_ONE", environment={"FROM": "qsub's own"}),
    row("v-newline", "-v", "LINES", environment={"LINES": "one\ntwo\n\nfour\n"}),
    row("v-comma", "-v", "COMMA", environment={"COMMA": "a,b,,c=d,"}),
    row("v-backslash", "-v", "SLASH", environment={"SLASH": "a\\nb\\\\n\\t\\"}),
    row("v-long", "-v", "LONG", environment={"LONG": "0123456789ab" * 1000}),
    row("v-control", "-v", "BYTES", environment={"BYTES": EVERY_BYTE}),
    row("v-xml", "-v", "XML", environment={"XML": '<a href="b">&amp;%lt;</a>'}),
    row("v-names", "-v", "a.b=1,a-b=2,a%b=3,1a=4,_=5,lower=6,A[0]=7"),
    row("v-name-xml", "-V", environment={"a<b": "1", "a&b": "2"}),
    row("v-place", "-v", "PATH=/usr/bin:/bin:/x,LD_LIBRARY_PATH=/tmp,TZ=Europe/Berlin,LANG=de_DE"),
    row("v-overrides", "-v", "HOME=/tmp,USER=x,LOGNAME=x,SHELL=/x,TMPDIR=/x,TMP=/x,PWD=/x,MAIL=/x"),
    row("v-job-overrides", "-v", "JOB_ID=7,JOB_NAME=x,SGE_TASK_ID=7,NSLOTS=9,QUEUE=x,PE=x,PE_HOSTFILE=/x"),
    row("v-job-overrides-2", "-v", "RESTARTED=5,JOB_SCRIPT=/x,HOSTNAME=x,REQUEST=x,ENVIRONMENT=x,ARC=x,NHOSTS=7"),
    row("v-sge", "-v", "SGE_OWN=1,SGE_O_OWN=2,SGE_O_HOME=/x,SGE_ACCOUNT=x,SGE_CWD_PATH=/x,SGE_ARCH=x"),
    row("v-sge-cell", "-v", "SGE_ROOT=/x,SGE_CELL=x,SGE_QMASTER_PORT=1,SGE_CLUSTER_NAME=x,SGE_BINARY_PATH=/x"),
    row("v-wrapper", "-v", "gb_name=x,gb_spool=/x,GRIDBRIDGE_REMOTE_JOB_ID=7,TERM=vt100,COLUMNS=7"),
    row(
        "v-hostile",
        "-v",
        "BASH_ENV=@DIR@/rc,ENV=@DIR@/rc,IFS=x,PS4=x,CDPATH=/,PYTHONPATH=/x,PYTHONHOME=/x",
        before="echo 'echo rc was read' >rc",
    ),
    row("v-preload", "-v", "LD_PRELOAD=/no/such.so", script="echo out\n"),
    variables("V", "-V", MINE="all of it", EMPTY="", LINES="a\nb"),
    row(
        "V-function",
        "-V",
        "-S",
        "/bin/bash",
        script=LOOK + "greet you\n",
        environment={"BASH_FUNC_greet%%": '() {  echo "hello $1"\n}'},
    ),
    row("V-old-function", "-V", environment={"BASH_FUNC_x()": "() { :; }"}),
    row("no-variables", environment={"MINE": "not sent"}),
)
REQUESTS = (
    row("array", "-t", "2-6:2", script=LOOK + "echo $SGE_TASK_ID\n"),
    row("array-tc", "-t", "1-3", "-tc", "1"),
    row("array-of-one", "-t", "5"),
    row("pe-smp", "-pe", "smp", "2", script=LOOK + "wc -l <$PE_HOSTFILE; cut -d' ' -f2 $PE_HOSTFILE\n"),
    row("pe-range", "-pe", "mpi", "2-3", script=SLOTS),
    row("pe-merged", "-pe", "smp", "2", "-j", "y"),
    row("limits", "-l", "h_rt=300,s_rt=200,h_vmem=1G,h_stack=8M,h_fsize=10M,h_core=0,s_data=512M"),
    row("limits-soft", "-soft", "-l", "num_proc=999,arch=lx-amd64"),
    row("limit-memory", "-l", "h_vmem=120M", script="/usr/bin/python3 -c 'x = b\"1\" * 300000000'\n"),
    row("limit-file", "-l", "h_fsize=1M", script="ulimit -c 0; head -c 3000000 /dev/zero >big; echo $?\n"),
    row("limit-soft-time", "-l", "s_rt=00:00:03", script="trap 'echo usr1; exit 6' USR1\nsleep 30 &\nwait\n"),
    row("limit-time", "-l", "h_rt=00:00:04", script="sleep 60\n"),
    row("limit-processor", "-l", "s_cpu=00:00:01", script=SPIN),
    row("project", "-P", "fidelity"),
    row("priority", "-p", "-100"),
    row("share", "-js", "5"),
    row("account", "-A", "my.account"),
    row("context", "-ac", "a=1,b=two words,c="),
    row("rerun-yes", "-r", "y"),
    row("rerun-no", "-r", "n"),
    row("checkpoint", "-ckpt", "fidelity"),
    row(
        "held-by-a-job",
        "-hold_jid",
        "fidelity-first",
        script=LOOK + "cat order\n",
        before="echo 'sleep 2; echo first >order' | qsub -cwd -N fidelity-first -o /dev/null -j y >/dev/null",
    ),
    row("now-no", "-now", "n"),
    row("past", "-a", "202001010000"),
    row("reserve", "-R", "y"),
    row("verify", "-w", "w"),
    row("deadline-less", "-hard", "-l", "arch=lx-amd64"),
    row("mail", "-m", "bea", "-M", "@MAIL@", script="exit 3\n"),
    row("mail-two", "-m", "be", "-M", "@MAIL@,@MAIL@-2", script="exit 0\n"),
    row("mail-array", "-m", "e", "-M", "@MAIL@", "-t", "1-2", script="exit 0\n"),
    row("mail-abort", "-m", "a", "-M", "@MAIL@", script="ulimit -c 0; kill -KILL $$\n"),
    row("mail-none", "-M", "@MAIL@", script="exit 1\n"),
    row("mail-error", "-m", "a", "-M", "@MAIL@", script="exit 100\n", is_stuck=True),
    row("notify", "-notify", script=COUNT.replace("SIGNAL", "USR2"), then=("qdel",)),
    row("notify-suspend", "-notify", script=COUNT.replace("SIGNAL", "USR1"), then=("qmod", "-sj")),
    row("deleted", script="trap 'echo usr2' USR2\ntouch ready\nsleep 300\n", then=("qdel",)),
    row("mail-deleted", "-m", "abe", "-M", "@MAIL@", script="touch ready\nsleep 300\n", then=("qdel",)),
)
ENDS = (
    *(exits(status) for status in (0, 1, 25, 98, 127, 128, 130, 137, 199, 200, 255)),
    row(  # held until it is quiet: under load execd loses a task that starts again (failed 21)
        "exit-99", script=AGAIN, then=("sh", "-c", HOLD, "sh"), at_last=("qalter", "-h", "O")
    ),
    exits(100, is_stuck=True),
    *(dies(signal) for signal in ("KILL", "TERM", "INT", "PIPE", "SEGV", "USR1", "USR2", "HUP", "XCPU", "QUIT")),
    binary("no-shell-signal", "/usr/bin/python3", "-c", "import os; os.kill(os.getpid(), 13)", options=("-shell", "n")),
    binary("no-shell-interrupt", "/usr/bin/perl", "-e", "kill 2, $$; sleep 1", options=("-shell", "n")),
)
# Those that need several rounds of the clusters go first.
ROWS = ENDS + REQUESTS + SCRIPTS + SHELLS + BINARIES + NAMES + PLACES + ENVIRONMENT
