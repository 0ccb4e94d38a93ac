"""Refits from a studio: a process of their own, whose result is kept or gone back from."""

import subprocess
import time
from typing import Any

from newkinds.studio.server import LOOKS
from tests.studio.conftest import until
from tests.studio.test_endpoints import do, kinds


def test_a_refit_is_a_version_to_keep_or_to_go_back_from(digits_client):
    do(digits_client, "merge", kinds=["new-1", "new-2"], into="new-1")
    sizes = {key: card["size"] for key, card in kinds(digits_client).items()}
    assert digits_client.post("/api/refit/start", json={}).json()["job"]["state"] == "running"
    assert "a refit is at work" in digits_client.post("/api/do/undo", json={}).json()["error"].lower()
    assert "already" in digits_client.post("/api/refit/start", json={}).json()["error"]
    until(lambda: digits_client.get("/api/refit").json()["job"]["state"] != "running", "for the refit")
    job = digits_client.get("/api/refit").json()["job"]
    assert job["state"] == "done", job
    assert "kind" in job["result"]["summary"][0]
    state = digits_client.get("/api/state").json()
    assert (state["n"], state["version"], state["undo"]["op"]) == (2, "0002", "refit")
    assert job["result"]["n_moved"] == sum(n for *_, n in job["result"]["flows"])
    assert do(digits_client, "undo", entry=2)["all"]
    assert {key: card["size"] for key, card in kinds(digits_client).items()} == sizes
    assert digits_client.post("/api/refit/close", json={}).json()["job"] is None


def test_a_process_is_ready_for_a_refit_once_something_was_done(digits_client, monkeypatch):
    started: list[Any] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **named: Any) -> Any:
        started.append(popen(*arguments, **named))
        return started[-1]

    monkeypatch.setattr("newkinds.studio.jobs.subprocess.Popen", start)
    time.sleep(2 * LOOKS)
    assert started == []
    do(digits_client, "move", rows=[1], kind="new-1")
    until(lambda: len(started) == 1, "for a process that is ready")
    digits_client.post("/api/refit/start", json={})
    until(lambda: digits_client.get("/api/refit").json()["job"]["state"] == "done", "for the refit")
    time.sleep(2 * LOOKS)
    assert len(started) == 1
    do(digits_client, "move", rows=[2], kind="new-1")
    until(lambda: len(started) == 2)
    started[-1].kill()
    started[-1].wait()
    digits_client.post("/api/refit/start", json={})
    until(lambda: digits_client.get("/api/refit").json()["job"]["state"] == "done", "for the refit")


def test_a_refit_that_is_cancelled_or_dies_has_not_happened(digits_client, monkeypatch):
    do(digits_client, "rename", kind="new-1", name="eight")
    digits_client.post("/api/refit/start", json={})
    assert digits_client.post("/api/refit/cancel", json={}).status_code == 200
    until(lambda: digits_client.get("/api/refit").json()["job"]["state"] == "cancelled")
    monkeypatch.setattr("newkinds.studio.jobs.WORKER", "newkinds.no_such_module")
    digits_client.post("/api/refit/start", json={})
    until(lambda: digits_client.get("/api/refit").json()["job"]["state"] == "failed")
    assert "nothing was changed" in digits_client.get("/api/refit").json()["job"]["error"]
    assert digits_client.get("/api/state").json()["n"] == 1
