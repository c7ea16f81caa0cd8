# Stand-in for a command of Grid Engine in the PATH of a remote job: replaces the job id of home, which the job knows,
# by the remote job id, and runs the command. Set above: gb_own, the job id at home; gb_there, the remote job id;
# gb_task, the task's index at home.
# shellcheck shell=sh disable=SC2154 # set above
here=${0%/*} name=${0##*/} others=:$PATH:
while case $others in *":$here:"*) ;; *) false ;; esac do
    others=${others%%":$here:"*}:${others#*":$here:"}
done
others=${others#:} others=${others%:}
real=$(PATH=$others command -v "$name") || { echo "$name: not found" >&2 && exit 127; }
[ "$JOB_ID" = "$gb_own" ] || exec "$real" "$@" # in a job that the remote job submitted, nothing is replaced

translate() { # $word, a list of jobs and tasks such as 12,13.4; a task at home is a whole job here
    rest=$word, told=
    while [ -n "$rest" ]; do
        each=${rest%%,*} rest=${rest#*,}
        case $each in
        "$gb_own" | "$gb_own.$gb_task") each=$gb_there ;;
        "$gb_own".*) each=$gb_there.${each#*.} ;;
        esac
        told=$told,$each
    done
    word=${told#,}
}

look() { # at $word, which is not an option's value; $1 is the next word
    case "$name $word" in
    "qstat -j" | *" -hold_jid" | *" -hold_jid_ad") are_jobs=yes ;;
    "qsub -t" | "qalter -t") keep=1 ;;
    *" -t") if [ "$1" = "$gb_task" ]; then drop=2; else keep=1; fi ;; # the remote job has no tasks
    *" --") keep=-1 ;;
    "qstat "*) ;;
    *" -"[fhV] | *" -help" | *" -clear" | *" -cwd" | *" -hard" | *" -soft" | *" -notify" | *" -terse" | *" -verify" | \
        *" -nostdin" | *" -noshell" | *" -uall" | *" "linear:* | *" "striding:* | *" "explicit:*)
        case "$name $word" in "qalter -h" | "qhold -h" | "qrls -h") keep=1 ;; esac ;;
    "qmod -msg") keep=1 ;;
    "qmod -"*) ;;
    *" -pe") keep=2 ;;
    *" -binding") case $1 in env | pe | set) keep=2 ;; *) keep=1 ;; esac ;;
    *" -"?*) keep=1 ;;
    "qsub "*) keep=-1 ;; # the script; its arguments follow
    *) translate ;;
    esac
}

keep=0 drop=0 are_jobs=
for word; do
    shift
    if [ "$keep" -ne 0 ]; then
        keep=$((keep - 1))
    elif [ -n "$are_jobs" ]; then
        translate && are_jobs=
    else
        look "$1"
    fi
    if [ "$drop" -eq 0 ]; then set -- "$@" "$word"; else drop=$((drop - 1)); fi
done
exec "$real" "$@"
