"""Code snippets that send heartbeats: the same job in six environments. Pure."""

from typing import NamedTuple

CURL = "curl -fsS -m 10 --retry 5 --retry-connrefused"
"""Sends again while the service restarts. The snippets name their run, so that a repeated request counts once."""


class Snippet(NamedTuple):
    """Code to copy."""

    title: str
    about: str
    text: str


def build(ingest_url: str, key: str) -> tuple[Snippet, ...]:
    """The snippets, with the ingest URL of an organization and a key filled in."""
    job = f"{ingest_url}/api/v1/heartbeat/my-job"
    return (
        Snippet("curl", "One ping when the job is done.", _ping(job, key)),
        Snippet("Crontab line", "Reports start, end and exit code.", _crontab(job, key)),
        Snippet("systemd unit", "Drop-in for a timer's service.", _systemd(job, key)),
        Snippet("Shell wrapper", "Runs a command and sends the end of its output as a log message.", _shell(job, key)),
        Snippet("Python", "Standard library only. The job never fails because of it.", _python(job, key)),
        Snippet("GitHub Actions", "The last step of a scheduled workflow; the key is a secret.", _actions(job)),
    )


def _ping(job: str, key: str) -> str:
    return f"{CURL} -X POST -H 'X-API-Key: {key}' -H \"Idempotency-Key: $(date +%s)-$$\" {job}/ping"


def _crontab(job: str, key: str) -> str:
    send = f"{CURL} -o /dev/null -X POST -H 'X-API-Key: {key}'"
    # cron reads a bare % as the end of the line.
    return (
        f'0 2 * * * id=$(date +\\%s)-$$; {send} "{job}/start?run_id=$id"; '
        f'/usr/local/bin/my-job; {send} "{job}/end?exit_code=$?&run_id=$id"'
    )


def _systemd(job: str, key: str) -> str:
    send = f'{CURL} --retry-max-time 30 -o /dev/null -X POST -H "X-API-Key: {key}"'
    # systemd turns $$ into $, and the shell then reads the variable.
    return (
        "# systemctl edit my-job.service\n[Service]\n"
        f"ExecStartPre=-/bin/sh -c '{send} \"{job}/start?run_id=$$INVOCATION_ID\"'\n"
        'ExecStopPost=-/bin/sh -c \'test "$$SERVICE_RESULT" = success && went=ok || went=fail; '
        f'{send} "{job}/end?status=$$went&run_id=$$INVOCATION_ID"\''
    )


def _shell(job: str, key: str) -> str:
    return f"""#!/bin/sh
# reported: run a command and report it.  reported /usr/local/bin/my-job --all
send() {{ path=$1; shift; {CURL} -o /dev/null -X POST -H 'X-API-Key: {key}' "$@" "{job}/$path" || true; }}
id=$(date +%s)-$$
output=$(mktemp)
send "start?run_id=$id"
"$@" >"$output" 2>&1
code=$?
cat "$output"
tail -c 10240 "$output" | send "log?run_id=$id" -H "Idempotency-Key: $id" --data-binary @-
send "end?exit_code=$code&run_id=$id"
rm -f "$output"
exit $code"""


def _python(job: str, key: str) -> str:
    return f"""import os, time, urllib.request

run_id = f"{{time.time_ns()}}-{{os.getpid()}}"

def heartbeat(event):
    url = "{job}/" + event + "run_id=" + run_id
    call = urllib.request.Request(url, method="POST", headers={{"X-API-Key": "{key}"}})
    for pause in (1, 2, 4, 8, 0):
        try:
            return urllib.request.urlopen(call, timeout=10).close()
        except OSError:
            time.sleep(pause)

heartbeat("start?")
try:
    main()
except BaseException:
    heartbeat("end?status=fail&")
    raise
heartbeat("end?")"""


def _actions(job: str) -> str:
    status = "${{ job.status == 'success' && 'ok' || 'fail' }}"
    run_id = "${{ github.run_id }}-${{ github.run_attempt }}"
    return f"""- name: Report
  if: always()
  run: >
    {CURL} -X POST -H "X-API-Key: ${{{{ secrets.OBS_KEY }}}}"
    "{job}/end?status={status}&run_id={run_id}\""""
