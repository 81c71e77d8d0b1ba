#!/bin/sh
# obs.sh: run a command and report it to obs, on machines without Python. It needs curl.
#
#   OBS_URL=https://obs.example.com/in/home OBS_API_KEY=obs_home_... sh obs.sh photos restic backup /photos
#
# Reports the start, the last 10 KB of the output, and the exit code, which is also that of this script. The name of
# the job must be valid in a URL: letters, digits, and any of . _ - /
set -u
[ $# -ge 2 ] || { echo "Usage: obs.sh JOB COMMAND..." >&2; exit 2; }
job=$1
shift
[ "$1" != -- ] || shift
id=$(date +%s)-$$
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

send() {
    event=$1
    shift
    curl -fsS -m 10 --retry 3 --retry-connrefused -o /dev/null -X POST -H "X-API-Key: $OBS_API_KEY" \
        -H "X-Platform-Host: $(uname -n)" "$@" "$OBS_URL/api/v1/heartbeat/$job/$event" || true
}

send "start?run_id=$id" &
started=$!
{
    "$@" 2>&1
    echo $? >"$folder/code"
} | tee "$folder/output"
code=$(cat "$folder/code")
wait "$started"
if [ -s "$folder/output" ]; then
    tail -c 10240 "$folder/output" | send "log?run_id=$id" -H "Idempotency-Key: $id" --data-binary @-
fi
send "end?exit_code=$code&run_id=$id"
exit "$code"
