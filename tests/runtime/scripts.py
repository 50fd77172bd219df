"""Scripts in interpreters of their own, for what is a matter of a whole process."""

import os
import signal
import subprocess
import sys
import time

SECONDS = 60  # a hang is a failure, not a stuck suite


def run_script(text: str) -> tuple[str, float]:
    """Run a script in another interpreter; return what it printed and how long it took."""
    path = os.pathsep.join(filter(None, sys.path))
    start = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - our own text
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children hold the pipes open
            raise

    assert (process.returncode, errors) == (0, "")
    return out, time.monotonic() - start
