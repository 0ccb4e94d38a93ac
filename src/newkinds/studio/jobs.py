"""Refitting a run beside the studio: in a process of its own, with progress and a way to stop it.

The process loads PyTorch, waits for a line on its standard input, refits, and writes one line of JSON for each step
to its standard output. It ends when its standard input does, so it never outlives the studio. A refit counts once
its entry is in the journal, and not before.
"""

import json
import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from newkinds.errors import InputError
from newkinds.studio.live_run import LiveRun

logger = logging.getLogger(__name__)

WORKER = "newkinds.studio.refit_process"
PAUSE = 0.1
"""Seconds between two reports of progress that pages get."""
SHOWN_ERROR = 300
"""Characters of what a process that failed said last."""


@dataclass(frozen=True)
class Job:
    """A refit, at work or ended; see `Job` in web/src/studio/refit.tsx."""

    state: str
    stage: str = "starting"
    done: int = 0
    total: int = 0
    error: str | None = None
    result: dict[str, Any] | None = None


class Jobs:
    """The one refit that may be at work."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: subprocess.Popen[bytes] | None = None
        self._is_cancelled = self._has_ended = False
        self.job: Job | None = None

    @property
    def is_running(self) -> bool:
        return self.job is not None and self.job.state == "running"

    def prepare(self) -> None:
        """Have a process ready once there is something to learn from, because loading PyTorch takes seconds."""
        with self._lock:
            is_wanted = self._live.edited.done_since_refit and not self.is_running
            if is_wanted and self._ready is None and not self._has_ended:
                self._ready = self._launched()

    def start(self) -> None:
        """Begin a refit."""
        with self._lock:
            if self.is_running:
                raise InputError("a refit is at work already; wait for it or cancel it")
            ready, self._ready = self._ready, None
            if ready is not None and (ready.poll() is not None or ready.args != self._command()):
                _put_away(ready)
                ready = None
            self._process = ready or self._launched()
            assert self._process.stdin is not None
            with suppress(OSError):  # if it has died, whoever follows it finds out
                self._process.stdin.write(b"refit\n")
                self._process.stdin.flush()
            self._is_cancelled = False
            self._tell(Job("running"))
        threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()

    def cancel(self) -> None:
        """End the refit; nothing has changed then."""
        with self._lock:
            if self._process is None or not self.is_running:
                raise InputError("no refit is at work")
            self._is_cancelled = True
            self._process.terminate()

    def close(self) -> None:
        """Put away what a refit said when it ended; one that is at work goes on."""
        with self._lock:
            if not self.is_running:
                self._tell(None)

    def end(self) -> None:
        """End a refit that is at work, and a process that is ready for one, with the studio."""
        with self._lock:
            self._has_ended = True
            if self._ready is not None:
                _put_away(self._ready)
                self._ready = None
            if self.is_running and self._process is not None:
                self._is_cancelled = True
                self._process.kill()

    def _command(self) -> list[str]:
        # -P: nothing in the folder that the studio was started in is imported
        return [sys.executable, "-P", "-m", WORKER, str(self._live.folder)]

    def _launched(self) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        return subprocess.Popen(self._command(), stdin=pipe, stdout=pipe, stderr=pipe)

    def _follow(self, process: "subprocess.Popen[bytes]") -> None:
        try:
            with process:  # closes its pipes
                self._listen(process)
        except Exception:  # else the refit would seem to be at work for ever
            logger.exception("a refit could not be followed")
            self._tell(Job("failed", error="The studio has a fault: its terminal says more."))

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        n_before = len(self._live.edited.entries)
        said: list[bytes] = []
        errors = process.stderr
        listener = threading.Thread(target=lambda: said.extend(errors.read().splitlines()[-1:]), daemon=True)
        listener.start()
        result: dict[str, Any] | None = None
        error, last_told = None, 0.0
        for line in process.stdout:
            with suppress(ValueError):
                report = json.loads(line)
                if not isinstance(report, dict):
                    continue
                result, error = report.get("result", result), report.get("error", error)
                if "stage" in report and time.monotonic() - last_told > PAUSE:
                    last_told = time.monotonic()
                    self._tell(Job("running", report["stage"], report["done"], report["total"]))
        process.wait()
        listener.join(timeout=1)
        with suppress(InputError, OSError):
            self._live.refresh()
        is_done = any(entry.op == "refit" for entry in self._live.edited.entries[n_before:])
        if is_done and result is not None:  # also if it was cancelled when it had just ended
            self._tell(Job("done", result={**result, **(self._live.moved or {})}))
        elif self._is_cancelled:
            self._tell(Job("cancelled"))
        else:
            words = b"".join(said).decode("utf-8", "replace")[:SHOWN_ERROR]
            self._tell(Job("failed", error=error or f"The refit ended unexpectedly; nothing was changed. {words}"))

    def _tell(self, job: Job | None) -> None:
        self.job = job
        self._live.tell("job", {"job": self.shown})

    @property
    def shown(self) -> dict[str, Any] | None:
        """As pages get it."""
        return None if self.job is None else asdict(self.job)


def _put_away(process: "subprocess.Popen[bytes]") -> None:
    """End a process that nobody follows."""
    with process:  # waits for it, and closes its pipes
        process.kill()
