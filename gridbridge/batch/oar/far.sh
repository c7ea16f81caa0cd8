# What is done at an OAR frontend besides its own commands, as the job's owner. $1 is the verb,
# $2 what it is about, $3 the path of oarstat, $4 the FIFO where ends are told or nothing, the
# rest the command line of an OAR program.
# A job's script waits in the home, which OAR's nodes share, under the id of the one job that may
# run it: OAR resubmits a job that it could not launch under another id, and that finds nothing.
# shellcheck shell=sh
umask 077
verb=$1 about=$2 oarstat=$3 ends=$4
shift 4
newline='
'
cd "$(getent passwd "$(id -u)" | cut -d: -f6)" && mkdir -p .gridbridge && cd .gridbridge || exit 75

receive() { # into $new what stands in the input: it must be $about bytes, for a cut ends it too
    new=$(mktemp new.XXXXXXXX) && cat >"$new" && [ "$(wc -c <"$new")" -eq "$about" ] || { rm -f "$new" && exit 75; }
}

told() { # the number that oarsub has said under a name
    printf '%s\n' "$said" | sed -n "s/^$1=\([1-9][0-9]*\)\$/\1/p"
}

submit() {
    receive
    ended=
    [ -z "$ends" ] || case $ends$PWD in /*[!A-Za-z0-9_./-]*) ;; /*/*) ended=$(make_ended) ;; esac # as oarsub takes it
    for word; do
        shift
        case $word in --notify=*) [ -n "$ended" ] || continue && word="--notify=exec:$PWD/$ended gridbridge" ;; esac
        set -- "$@" "$word"
    done
    said=$("$@" 2>&1)
    status=$?
    id=$(told OAR_JOB_ID)
    if [ -n "$id" ]; then mv "$new" "job.$id"; else rm -f "$new" "$ended"; fi
    printf '%s\n' "$said"
    sweep
    return "$status"
}

submit_array() { # its jobs share the script, and each runs its own task once
    receive
    said=$("$@" 2>&1)
    status=$?
    id=$(told OAR_ARRAY_ID)
    [ -n "$id" ] || id=$(told OAR_JOB_ID) # so it tells an array of one
    if [ -n "$id" ]; then mv "$new" "array.$id"; else rm -f "$new"; fi
    printf '%s\n' "$said"
    sweep_arrays
    return "$status"
}

make_ended() { # what OAR runs as us here when the job starts, and when it ended
    program=$(mktemp end.XXXXXXXX) && chmod 700 "$program" && cat >"$program" <<END && echo "$program"
#!/usr/bin/perl
use Fcntl;
exit 0 if !grep { \$_ eq 'END' || \$_ eq 'ERROR' } @ARGV;
unlink \$0;
# what the job used, as its keeper noted it: that it is ours the service sees by whose file it is
my \$note = \$0 =~ s{[^/]*\$}{used.\$ARGV[1]}r;
my \$told = join '.', '${ends%/*}/used/'.\$ARGV[1], \$<, int rand 1e9;
open(NOTE, '<', \$note) && unlink(\$note) && sysopen(USED, \$told, O_WRONLY | O_CREAT | O_EXCL, 0644)
    && chmod(0644, \$told) && syswrite(USED, scalar <NOTE>);
# anybody may have made what stands there: it is written to if it is a FIFO, which holds nothing
sysopen(ENDS, '$ends', O_WRONLY | O_NONBLOCK | O_NOFOLLOW) && -p ENDS && syswrite(ENDS, "\$ARGV[1]\n");
END
}

sweep() { # what another hand than ours left: scripts of jobs that ended before they started
    old_ones 'job.*' | while read -r old; do
        case $(asked -s -j "${old##*.}") in *Error | *Terminated) rm -f "$old" ;; esac
    done
    find . \( -name 'new.*' -o -name 'end.*' -o -name 'used.*' \) -mtime +0 -exec rm -f {} +
}

sweep_arrays() { # those of which a task was deleted by another hand before it started, so nobody counted it
    old_ones 'array.*' | while read -r old; do
        states=$(asked -f --array "${old##*.}" | sed -n 's/^ *state = //p' | sort -u)
        case $states in Error | Terminated | "Error${newline}Terminated") rm -rf "$old" "$old.begun" ;; esac
    done
}

old_ones() { # some files that are older than a day; the next look at them is in a day
    find . -type f -name "$1" -mtime +0 | head -n 3 | while read -r old; do touch -c "$old" && echo "$old"; done
}

asked() { # what oarstat says, if it says anything soon
    perl -e 'alarm shift; exec @ARGV' 5 "$oarstat" "$@" </dev/null
}

delete() { # 6: it was deleted before
    "$@"
    status=$?
    case $status in 0 | 6) rm -f "job.$about" ;; esac
    return "$status"
}

delete_array() {
    "$@"
    status=$?
    case $status in 0 | 6) rm -rf "array.$about" "array.$about.begun" ;; esac
    return "$status"
}

delete_tasks() { # $about is their array and their places in it; no other shall wait for their ends
    "$@"
    status=$?
    set -f
    # shellcheck disable=SC2086 # words
    set -- $about
    begun=array.$1.begun
    shift
    case $status in 0 | 6) mkdir -p "$begun" && for place; do mkdir "$begun/$place" "$begun/$place.ended"; done 2>/dev/null ;; esac
    return "$status"
}

"$verb" "$@"
