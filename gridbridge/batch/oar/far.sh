# Runs a command of OAR at the frontend, as the job's owner, and stores the job's script. $1 is the verb, $2 the
# verb's argument, $3 the path of oarstat, $4 the FIFO for job ends or empty; the rest is the command line.
# The script waits in the home directory, which OAR's nodes share, under the job's id. If OAR resubmits the job, the
# new job has another id and finds no script.
# shellcheck shell=sh
umask 077
verb=$1 about=$2 oarstat=$3 ends=$4
shift 4
newline='
'
cd "$(getent passwd "$(id -u)" | cut -d: -f6)" && mkdir -p .gridbridge && cd .gridbridge || exit 75

receive() { # stores standard input in $new; expected are $about bytes, because a lost connection also ends the input
    new=$(mktemp new.XXXXXXXX) && cat >"$new" && [ "$(wc -c <"$new")" -eq "$about" ] || { rm -f "$new" && exit 75; }
}

told() { # prints the number that oarsub printed under a name
    printf '%s\n' "$said" | sed -n "s/^$1=\([1-9][0-9]*\)\$/\1/p"
}

submit() {
    receive
    ended=
    [ -z "$ends" ] || case $ends$PWD in /*[!A-Za-z0-9_./-]*) ;; /*/*) ended=$(make_ended) ;; esac # characters that oarsub accepts
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

submit_array() { # all jobs of the array share the script
    receive
    said=$("$@" 2>&1)
    status=$?
    id=$(told OAR_ARRAY_ID)
    [ -n "$id" ] || id=$(told OAR_JOB_ID) # oarsub prints this id for an array of one task
    if [ -n "$id" ]; then mv "$new" "array.$id"; else rm -f "$new"; fi
    printf '%s\n' "$said"
    sweep_arrays
    return "$status"
}

make_ended() { # writes the program that OAR runs here as the job's owner at the job's start and end
    program=$(mktemp end.XXXXXXXX) && chmod 700 "$program" && cat >"$program" <<END && echo "$program"
#!/usr/bin/perl
use Fcntl;
exit 0 if !grep { \$_ eq 'END' || \$_ eq 'ERROR' } @ARGV;
unlink \$0;
# passes on the usage that keeper.pl recorded; the file's owner proves whose job it was
my \$note = \$0 =~ s{[^/]*\$}{used.\$ARGV[1]}r;
my \$told = join '.', '${ends%/*}/used/'.\$ARGV[1], \$<, int rand 1e9;
open(NOTE, '<', \$note) && unlink(\$note) && sysopen(USED, \$told, O_WRONLY | O_CREAT | O_EXCL, 0644)
    && chmod(0644, \$told) && syswrite(USED, scalar <NOTE>);
# another user may have made the file, so only a FIFO is written to
sysopen(ENDS, '$ends', O_WRONLY | O_NONBLOCK | O_NOFOLLOW) && -p ENDS && syswrite(ENDS, "\$ARGV[1]\n");
END
}

sweep() { # removes the scripts of jobs that were deleted by others before their start
    old_ones 'job.*' | while read -r old; do
        case $(asked -s -j "${old##*.}") in *Error | *Terminated) rm -f "$old" ;; esac
    done
    find . \( -name 'new.*' -o -name 'end.*' -o -name 'used.*' \) -mtime +0 -exec rm -f {} +
}

sweep_arrays() { # removes the scripts of arrays of which others deleted a task before its start
    old_ones 'array.*' | while read -r old; do
        states=$(asked -f --array "${old##*.}" | sed -n 's/^ *state = //p' | sort -u)
        case $states in Error | Terminated | "Error${newline}Terminated") rm -rf "$old" "$old.begun" ;; esac
    done
}

old_ones() { # prints at most three files older than a day, and postpones their next check by a day
    find . -type f -name "$1" -mtime +0 | head -n 3 | while read -r old; do touch -c "$old" && echo "$old"; done
}

asked() { # prints oarstat's answer, if it comes within 5 s
    perl -e 'alarm shift; exec @ARGV' 5 "$oarstat" "$@" </dev/null
}

delete() { # exit status 6 of oardel: the job was deleted before
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

delete_tasks() { # $about is the array id and the indices; the tasks count as ended, so that no task waits for them
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
