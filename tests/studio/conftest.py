"""Studios to ask and to look at, in a thread or in a process of their own."""

import contextlib
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the studio needs the extra studio")
pytest.importorskip("uvicorn", reason="the studio needs the extra studio")

from starlette.testclient import TestClient

from newkinds.studio.events import Events
from newkinds.studio.jobs import Jobs
from newkinds.studio.live_run import LiveRun
from newkinds.studio.server import make_app, opened
from tests.report.conftest import digits_run as digits_run
from tests.report.conftest import hostile_run as hostile_run
from tests.report.conftest import photos_run as photos_run
from tests.report.conftest import runs as runs
from tests.report.conftest import texts_run as texts_run

TOKEN, HOST = "a-token", "127.0.0.1:8765"
ORIGIN = f"http://{HOST}"
PATIENCE = 20.0
"""Seconds."""


def copied(run: Path, folder: Path) -> Path:
    """A run of a test's own."""
    return Path(shutil.copytree(run, folder / run.name))


@contextlib.contextmanager
def asked(run: Path, *, entered: bool = True) -> Iterator[TestClient]:
    """A client of a studio; with the cookie, unless it has not entered."""
    live = LiveRun(run)
    jobs = Jobs(live)
    app = make_app(live, jobs, Events(live, jobs), TOKEN, [HOST])
    with TestClient(app, base_url=ORIGIN, headers={"origin": ORIGIN}, follow_redirects=False) as client:
        if entered:
            assert client.get(f"/?token={TOKEN}").status_code == 303
        yield client


@pytest.fixture
def digits_client(digits_run: Path, tmp_path: Path) -> Iterator[TestClient]:
    with asked(copied(digits_run, tmp_path)) as client:
        yield client


@pytest.fixture
def texts_client(texts_run: Path, tmp_path: Path) -> Iterator[TestClient]:
    with asked(copied(texts_run, tmp_path)) as client:
        yield client


@contextlib.contextmanager
def in_thread(run: Path, port: int = 0) -> Iterator[str]:
    """A studio that browsers can open, at the address that is given."""
    with opened(run, port=port) as studio:
        thread = threading.Thread(target=studio.run)
        thread.start()
        try:
            yield studio.address
        finally:
            studio.stop()
            thread.join(PATIENCE)


class Process:
    """A studio in a process of its own, as the command starts it."""

    def __init__(self, run: Path, *options: str) -> None:
        command = [sys.executable, "-m", "newkinds", "studio", str(run), "--no-browser", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + self.process.stdout.read()
        self.address = found[0]

    def end(self, *, at_once: bool = True) -> None:
        if at_once:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def process() -> Iterator[Callable[..., Process]]:
    """Starts studios, which are ended with the test."""
    started: list[Process] = []

    def start(run: Path, *options: str) -> Process:
        started.append(Process(run, *options))
        return started[-1]

    yield start
    for studio in started:
        studio.end()


def until(holds: Callable[[], Any], what: str = "") -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"waited in vain {what}"
        time.sleep(0.03)
