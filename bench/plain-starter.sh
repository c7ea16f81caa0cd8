#!/bin/sh
# The baseline of bench/transfer.py: the plainest starter_method that runs a job in the other cell.
# It submits, asks every 2 s whether the job is still there, and ends as accounting says.
# PLAIN_UNTIL=submitted in the job's environment ends it after the first of these.
PATH=/usr/lib/gridengine:$PATH
export SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455
id=$(qsub -terse -N plain -S /bin/sh -j y -o /dev/null "$@") || exit 100
echo "$id" >"$HOME/gb-bench/accepted/$JOB_ID.$SGE_TASK_ID"
[ "$PLAIN_UNTIL" != submitted ] || exit 0
while qstat -j "$id" >/dev/null 2>&1; do sleep 2; done
until status=$(qacct -j "$id" 2>/dev/null | sed -n 's/^exit_status *\([0-9]*\).*/\1/p') && [ -n "$status" ]; do
    sleep 2
done
exit "$status"
