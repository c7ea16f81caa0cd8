# Who creates the claim runs the job: we, or home, whose claim is a link. One of ours is of an earlier start.
# shellcheck shell=sh disable=SC2154,SC3028,SC3067 # set above, by execd; sh has test -O
set -C # O_EXCL, and no process: ln(1) would be one
if ! echo "$JOB_ID $HOSTNAME" 2>/dev/null >"$gb_claim"; then
    if [ -L "$gb_claim" ]; then
        tell outcome=requeue claim=home "reason=fenced: home has its claim"
        exit 199
    fi
    [ -O "$gb_claim" ] || refuse "can not claim the job in ${gb_claim%/*}"
fi
set +C
