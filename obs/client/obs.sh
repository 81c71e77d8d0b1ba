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
id=$(date +%s)-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')  # in containers, many processes have the same number
# The command runs also if there is no server, or no space for its output.
OBS_URL=${OBS_URL:-} OBS_API_KEY=${OBS_API_KEY:-}
[ -n "$OBS_URL" ] || echo "obs.sh: OBS_URL is not set, so nothing is reported" >&2
case $job in
    *[!A-Za-z0-9._/-]*)
        echo "obs.sh: nothing is reported: the name of the job may only have letters, digits and . _ - /" >&2
        OBS_URL=
        ;;
esac
folder=$(mktemp -d) || folder=
output=${folder:+$folder/output}
trap '[ -z "$folder" ] || rm -rf "$folder"' EXIT

send() {
    [ -n "$OBS_URL" ] || return 0
    event=$1
    shift
    # shellcheck disable=SC2086
    curl -fsS $patience -o /dev/null -X POST -H "X-API-Key: $OBS_API_KEY" -H "X-Platform-Host: $(uname -n)" "$@" \
        "${OBS_URL%/}/api/v1/heartbeat/$job/$event"
}

impatient() { # nobody waits as long again for a server that cannot be reached
    case $1 in 6 | 7 | 28) patience="-m 5" ;; esac
}

patience="-m 10 --retry 3 --retry-max-time 20 --retry-connrefused"
send "start?run_id=$id" &
started=$!
# 3 is for the exit code, 4 for the output, so that neither needs a file.
(exec 4>&1) 2>/dev/null || exec >/dev/null  # it may be closed
exec 4>&1
code=$({ { ("$@") 2>&1 3>&- 4>&-; echo $? >&3; } | tee "${output:-/dev/null}" >&4 3>&- 4>&-; } 3>&1)
wait "$started" || impatient $?
if [ -s "$output" ]; then
    tail -c 10240 "$output" | send "log?run_id=$id" -H "Idempotency-Key: $id" --data-binary @- || impatient $?
fi
send "end?exit_code=$code&run_id=$id"
exit "$code"
