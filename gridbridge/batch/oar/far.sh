# What is done at an OAR frontend besides its own commands, as the job's owner. $1 is the verb,
# $2 what it is about, $3 the path of oarstat, the rest the command line of an OAR program.
# A job's script waits in the home, which OAR's nodes share, under the id of the one job that may
# run it: OAR resubmits a job that it could not launch under another id, and that finds nothing.
# shellcheck shell=sh
umask 077
verb=$1 about=$2 oarstat=$3
shift 3
cd "$(getent passwd "$(id -u)" | cut -d: -f6)" && mkdir -p .gridbridge && cd .gridbridge || exit 75

submit() { # what stands in the input must be $about bytes, for a cut ends it too
    new=$(mktemp new.XXXXXXXX) && cat >"$new" && [ "$(wc -c <"$new")" -eq "$about" ] || { rm -f "$new" && exit 75; }
    said=$("$@" 2>&1)
    status=$?
    id=$(printf '%s\n' "$said" | sed -n 's/^OAR_JOB_ID=\([1-9][0-9]*\)$/\1/p')
    if [ -n "$id" ]; then mv "$new" "job.$id"; else rm -f "$new"; fi
    printf '%s\n' "$said"
    sweep
    return "$status"
}

sweep() { # what another hand than ours left: scripts of jobs that ended before they started
    find . -name 'job.*' -mtime +0 | head -n 3 | while read -r old; do
        touch -c "$old" # looked at again in a day
        case $(perl -e 'alarm shift; exec @ARGV' 5 "$oarstat" -s -j "${old##*.}" </dev/null) in
        *Error | *Terminated) rm -f "$old" ;;
        esac
    done
    find . -name 'new.*' -mtime +0 -exec rm -f {} +
}

delete() { # 6: it was deleted before
    "$@"
    status=$?
    case $status in 0 | 6) rm -f "job.$about" ;; esac
    return "$status"
}

"$verb" "$@"
