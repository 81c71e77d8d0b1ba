"""Code snippets that send heartbeats: the same job in six environments. Pure."""

from typing import NamedTuple


class Snippet(NamedTuple):
    """Code to copy."""

    title: str
    about: str
    text: str


def build(ingest_url: str, key: str) -> tuple[Snippet, ...]:
    """The snippets, with the ingest URL of an organization and a key filled in."""
    job = f"{ingest_url}/api/v1/heartbeat/my-job"
    return (
        Snippet("curl", "One ping when the job is done.", f"curl -fsS -m 10 -X POST -H 'X-API-Key: {key}' {job}/ping"),
        Snippet("Crontab line", "Reports start, end and exit code.", _crontab(job, key)),
        Snippet("systemd unit", "Drop-in for a timer's service.", _systemd(job, key)),
        Snippet("Shell wrapper", "Runs a command and sends the end of its output as a log message.", _shell(job, key)),
        Snippet("Python", "Standard library only. The job never fails because of it.", _python(job, key)),
        Snippet("GitHub Actions", "The last step of a scheduled workflow; the key is a secret.", _actions(job)),
    )


def _crontab(job: str, key: str) -> str:
    send = f"curl -fsS -m 10 -o /dev/null -X POST -H 'X-API-Key: {key}'"
    return f'0 2 * * * {send} {job}/start; /usr/local/bin/my-job; {send} "{job}/end?exit_code=$?"'


def _systemd(job: str, key: str) -> str:
    send = f'curl -fsS -m 10 -o /dev/null -X POST -H "X-API-Key: {key}"'
    # systemd turns $$ into $, and the shell then reads the variable.
    return (
        "# systemctl edit my-job.service\n[Service]\n"
        f"ExecStartPre=-/bin/sh -c '{send} {job}/start'\n"
        'ExecStopPost=-/bin/sh -c \'test "$$SERVICE_RESULT" = success && went=ok || went=fail; '
        f'{send} "{job}/end?status=$$went"\''
    )


def _shell(job: str, key: str) -> str:
    return f"""#!/bin/sh
# reported: run a command and report it.  reported /usr/local/bin/my-job --all
send() {{ path=$1; shift; curl -fsS -m 10 -o /dev/null -X POST -H 'X-API-Key: {key}' "$@" "{job}/$path" || true; }}
output=$(mktemp)
send start
"$@" >"$output" 2>&1
code=$?
cat "$output"
tail -c 10240 "$output" | send log --data-binary @-
send "end?exit_code=$code"
rm -f "$output"
exit $code"""


def _python(job: str, key: str) -> str:
    return f"""import contextlib, urllib.request

def heartbeat(event):
    call = urllib.request.Request("{job}/" + event, method="POST", headers={{"X-API-Key": "{key}"}})
    with contextlib.suppress(OSError):
        urllib.request.urlopen(call, timeout=10).close()

heartbeat("start")
try:
    main()
except BaseException:
    heartbeat("end?status=fail")
    raise
heartbeat("end")"""


def _actions(job: str) -> str:
    return f"""- name: Report
  if: always()
  run: >
    curl -fsS -m 10 -X POST -H "X-API-Key: ${{{{ secrets.OBS_KEY }}}}"
    "{job}/end?status=${{{{ job.status == 'success' && 'ok' || 'fail' }}}}" """.rstrip()
