"""The examples in docs/alerts.md verify what the courier signs, and nothing else."""

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from obs.alerts.courier.webhook import sign

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
SECRET, BODY = "a secret of the receiver", b'{"version": 1, "title": "photos failed"}'


def test_the_python_example_accepts_only_what_was_signed() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names: dict[str, Any] = {}
    exec(source, names)
    now = int(time.time())
    header = f"t={now},v1={sign(SECRET, str(now), BODY)}"
    assert names["is_genuine"](SECRET, header, BODY)
    assert not names["is_genuine"](SECRET, header, BODY + b" ")
    assert not names["is_genuine"]("another secret", header, BODY)
    old = str(now - 3600)
    assert not names["is_genuine"](SECRET, f"t={old},v1={sign(SECRET, old, BODY)}", BODY)


def test_the_shell_example_accepts_only_what_was_signed(tmp_path: Path) -> None:
    (command,) = re.findall(r"^test .*$", PAGE, re.M)

    def accepts(body: bytes) -> bool:
        (tmp_path / "body").write_bytes(body)
        variables = {"SECRET": SECRET, "t": "1795318615", "v1": sign(SECRET, "1795318615", BODY)}
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env={**os.environ, **variables}, check=False)
        return done.returncode == 0

    assert accepts(BODY)
    assert not accepts(BODY + b" ")
