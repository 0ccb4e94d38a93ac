"""The studio in a real browser: looking, correcting, undoing, two tabs, and coming back after the worst."""

import contextlib
import json
import math
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds.editing import EditedRun
from newkinds.run_folder import MAP_FILE, verify_run
from tests.studio.conftest import copied, in_thread, until

PATIENCE = 20_000
"""Milliseconds."""
AROUND = 24
"""Corners of a lasso."""


class Seen:
    """A page of a studio, with all that went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def card(self, key: str) -> Any:
        return self.page.locator(f'article[data-kind="{key}"]')

    def words(self, place: str) -> str:
        return " ".join(self.page.locator(place).inner_text().split())

    @property
    def n(self) -> int:
        """Which state the page shows."""
        return int(self.page.evaluate("window.newkinds.n"))

    def rename(self, key: str, name: str) -> None:
        before = self.n
        self.card(key).locator(".pencil").click()
        self.page.get_by_label(f"Name of {key}").fill(name)
        self.page.keyboard.press("Enter")
        until(lambda: self.n == before + 1)

    def lasso(self, places: Any) -> None:
        """Draw around points, given by their places on the map."""
        box = self.page.locator("#map-canvas").bounding_box()
        spots = self.page.evaluate("(p) => p", places.tolist())
        (left, top), (right, bottom) = np.min(spots, axis=0), np.max(spots, axis=0)
        x, y = box["x"] + (left + right) / 2, box["y"] + (top + bottom) / 2
        radius = max(right - left, bottom - top) / 2 * 1.5 + 6
        self.page.keyboard.down("Shift")
        self.page.mouse.move(x + radius, y)
        self.page.mouse.down()
        for i in range(1, AROUND + 1):
            turn = 2 * math.pi * i / AROUND
            self.page.mouse.move(x + radius * math.cos(turn), y + radius * math.sin(turn))
        self.page.mouse.up()
        self.page.keyboard.up("Shift")


@pytest.fixture
def look(browser: Any) -> Callable[..., Any]:
    @contextlib.contextmanager
    def opened(address: str, *, width: int = 1280, scheme: str = "light", pages: int = 1) -> Iterator[Any]:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        seen = [Seen(context.new_page()) for _ in range(pages)]
        for one in seen:
            one.page.goto(address)
            one.page.locator("article").first.wait_for()
        yield seen[0] if pages == 1 else seen
        assert [error for one in seen for error in one.errors] == []
        context.close()

    return opened


def on_screen(seen: Seen, run: Path, rows: Any) -> Any:
    """Where samples are on the map, in its pixels, while it shows all of it (see web/src/map/view.ts)."""
    places = np.clip(np.load(run / MAP_FILE).astype(float), 0, 1)
    box = seen.page.locator("#map-canvas").bounding_box()
    low, high = places.min(axis=0), places.max(axis=0)
    scale = (np.array([box["width"], box["height"]]) - 2 * 28) / (high - low)
    scale = np.minimum(scale, 1.4 * scale.min())
    away = (places[rows] - (low + high) / 2) * scale
    return np.array([box["width"], box["height"]]) / 2 + away * [1, -1]


def test_without_the_token_a_browser_sees_nothing_and_with_it_the_address_is_clean(digits_run, tmp_path, browser):
    with in_thread(copied(digits_run, tmp_path)) as address:
        context = browser.new_context()
        page = context.new_page()
        assert page.goto(address.partition("?")[0]).status == 403
        assert "it ends in a token" in page.inner_text("body")
        page.goto(address)
        page.locator("article").first.wait_for()
        assert "token" not in page.url
        assert page.evaluate("document.cookie") == ""
        context.close()


def test_the_story_of_the_digits(digits_run, tmp_path, look):
    """Look, name, merge, split with a preview, draw around points and move them, undo, export."""
    run = copied(digits_run, tmp_path)
    with in_thread(run) as address, look(address) as seen:
        page = seen.page
        assert "1,797 samples, 5 known and 5 new kinds, 450 labelled" in seen.words(".facts-line")
        until(lambda: page.evaluate("window.newkinds.drawn") == 1797)
        seen.rename("new-1", "five")
        assert "five" in seen.words('[data-legend="new-1"]')

        seen.card("new-2").get_by_role("button", name="Merge …").click()
        page.get_by_label("Find a kind", exact=True).fill("new-3")
        page.keyboard.press("Enter")
        page.locator("#preview").wait_for()
        assert "become one kind" in seen.words("#preview")
        assert page.locator("#preview img").count() == 24
        page.locator("#do-it").click()
        until(lambda: seen.n == 2)
        assert seen.card("new-3").count() == 0

        seen.card("new-2").get_by_role("button", name="Split …").click()
        page.get_by_label("Into how many kinds").select_option("2")
        page.get_by_role("button", name="Split into 2").wait_for()
        sizes = [int(text.split()[2]) for text in page.locator("#preview h4").all_inner_texts()]
        page.locator("#do-it").click()
        until(lambda: seen.n == 3)
        assert [EditedRun(run).category(key)["size"] for key in ("new-2", "new-6")] == sizes

        rows = EditedRun(run).members("five")[:40]
        page.locator("#map").scroll_into_view_if_needed()
        seen.lasso(on_screen(seen, run, rows))
        page.locator("#selection").wait_for()
        n_selected = int(seen.words("#selection strong").split()[0].replace(",", ""))
        assert n_selected >= 40
        page.keyboard.press("m")
        page.get_by_label("Find a kind", exact=True).fill("new-5")
        page.keyboard.press("Enter")
        until(lambda: seen.n == 4)
        edited = EditedRun(run)
        assert edited.samples.confirmed.sum() == n_selected
        assert set(edited.samples.categories[rows].tolist()) == {edited.category("new-5")["id"]}

        page.keyboard.press("Control+z")
        until(lambda: seen.n == 5)
        assert set(EditedRun(run).samples.categories[rows].tolist()) == {edited.category("five")["id"]}
        page.keyboard.press("Control+Shift+z")
        until(lambda: seen.n == 6)
        page.locator("#export summary").click()
        with page.expect_download() as download:
            page.get_by_text("Table (.csv)").click()
        assert b"five" in Path(download.value.path()).read_bytes()


def test_texts_are_searched_selected_by_keys_and_dragged(texts_run, tmp_path, look):
    run = copied(texts_run, tmp_path)
    with in_thread(run) as address, look(address) as seen:
        page = seen.page
        page.keyboard.press("/")
        page.keyboard.type("PIN 3")
        page.keyboard.press("Enter")
        items = page.locator("#list [role=option]")
        items.first.wait_for()
        assert items.count() == 9
        items.first.focus()
        page.keyboard.press("Space")
        page.keyboard.press("Shift+ArrowDown")
        page.keyboard.press("Shift+ArrowDown")
        assert seen.words("#selection strong") == "3 texts selected"
        page.get_by_role("button", name="More like this").click()
        page.get_by_role("heading", name="Like 3 texts").wait_for()
        assert items.first.inner_text().startswith("change my PIN")
        page.keyboard.press("c")
        until(lambda: seen.n == 1)
        assert EditedRun(run).samples.confirmed.sum() == 3
        page.get_by_label("Close the list").click()
        source = seen.card("new-1").locator("[role=option]").first
        row = int(source.get_attribute("data-row"))
        page.evaluate("document.querySelector('article[data-kind=new-1]').scrollIntoView()")
        source.drag_to(seen.card("new-2").locator("header"))
        until(lambda: seen.n == 2)
        edited = EditedRun(run)
        assert edited.samples.categories[row] == edited.category("new-2")["id"]


def test_twenty_questions_by_the_keyboard_then_a_refit_to_go_back_from(digits_run, tmp_path, look):
    run = copied(digits_run, tmp_path)
    with in_thread(run) as address, look(address) as seen:
        page = seen.page
        page.locator("#review-button").click()
        for i in range(20):
            page.locator(".ask[aria-busy=false]").wait_for()
            question, before = page.locator(".ask").get_attribute("data-question"), seen.n
            if i % 7 == 6:
                page.keyboard.press("s")
            elif i % 7 == 3 and page.locator(".ask").get_attribute("data-topic") != "merge":
                page.keyboard.press("1")
            else:
                page.keyboard.press("y")
            # mypy cannot infer the types of lambdas with defaults.
            until(lambda q=question: page.locator(f'.ask[data-question="{q}"]').count() == 0)  # type: ignore[misc]
            assert seen.n == before + (i % 7 != 6)
        until(lambda: seen.words("#review-progress").startswith("18 answered"))
        assert EditedRun(run).samples.confirmed.sum() >= 18
        sizes = [category["size"] for category in EditedRun(run).record["categories"]]
        page.locator("#refit").click()
        page.get_by_role("heading", name="What the refit changed").wait_for()
        assert "changed" in seen.words("#job")
        until(lambda: seen.n == 19)
        page.locator("#go-back").click()
        page.locator("#job").wait_for(state="detached")
        until(lambda: seen.n == 20)
        assert [category["size"] for category in EditedRun(run).record["categories"]] == sizes


def test_two_tabs_stay_in_step_and_see_the_command_line(texts_run, tmp_path, look):
    run = copied(texts_run, tmp_path)
    with in_thread(run) as address, look(address, pages=2) as (one, two):
        one.rename("new-1", "lost PIN")
        until(lambda: two.n == 1)
        assert "lost PIN" in " ".join(two.card("new-1").locator("h3").inner_text().split())
        two.page.locator("#undo").click()
        until(lambda: one.n == 2)
        assert "lost PIN" not in one.card("new-1").locator("h3").inner_text()
        EditedRun(run).rename("new-2", "fees")
        until(lambda: one.n == two.n == 3)
        assert "fees" in one.card("new-2").locator("h3").inner_text()


def test_a_lost_connection_is_shown_and_comes_back(texts_run, tmp_path, browser):
    run = copied(texts_run, tmp_path)
    with in_thread(run) as address:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(address)
        page.locator("article").first.wait_for()
        port = int(address.split(":")[2].partition("/")[0])
    page.locator("#connection").get_by_text("connection to the studio is lost").wait_for()
    with in_thread(run, port) as address:
        page.locator("#connection").get_by_text("open the address that it printed last").wait_for()
        page.goto(address)
        page.locator("article").first.wait_for()
        assert page.locator("#connection").count() == 0
    context.close()


def test_a_page_that_missed_something_catches_up(texts_run, tmp_path, browser):
    run = copied(texts_run, tmp_path)
    with in_thread(run) as address:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        seen = Seen(context.new_page())
        seen.page.route("**/api/events", lambda route: route.abort())
        seen.page.goto(address)
        seen.page.locator("#connection").get_by_text("connection to the studio is lost").wait_for()
        EditedRun(run).rename("new-2", "fees")
        seen.page.unroute("**/api/events")
        seen.page.locator("#connection").wait_for(state="detached")
        until(lambda: seen.n == 1)
        assert "fees" in seen.card("new-2").locator("h3").inner_text()
        context.close()


def test_a_page_that_missed_a_move_does_not_confirm_what_it_did_not_see(texts_run, tmp_path, browser):
    run = copied(texts_run, tmp_path)
    with in_thread(run) as address:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        seen = Seen(context.new_page())
        seen.page.route("**/api/events", lambda route: route.abort())
        seen.page.goto(address)
        samples = seen.card("new-1").locator("[role=option]")
        samples.first.wait_for()
        rows = [int(samples.nth(i).get_attribute("data-row")) for i in range(2)]
        EditedRun(run).move(rows[:1], "new-2")
        for i in range(2):
            samples.nth(i).click()
        seen.page.get_by_role("button", name="Confirm").click()
        seen.page.get_by_text("1 of these 2 samples went to another kind meanwhile").wait_for()
        until(lambda: seen.n == 1)
        assert EditedRun(run).samples.confirmed.sum() == 1
        assert seen.words("#selection strong") == "1 text selected"
        seen.page.get_by_role("button", name="Confirm").click()
        until(lambda: seen.n == 2)
        assert EditedRun(run).samples.confirmed[rows].all()
        context.close()


def test_what_is_selected_and_moved_elsewhere_is_no_longer_selected(texts_run, tmp_path, look):
    run = copied(texts_run, tmp_path)
    with in_thread(run) as address, look(address) as seen:
        samples = seen.card("new-1").locator("[role=option]")
        rows = [int(samples.nth(i).get_attribute("data-row")) for i in range(2)]
        for i in range(2):
            samples.nth(i).click()
        assert seen.words("#selection strong") == "2 texts selected"
        EditedRun(run).move(rows[:1], "new-2")
        until(lambda: seen.n == 1)
        assert seen.words("#selection strong") == "1 text selected"


def test_hostile_texts_and_names_are_shown_as_text(hostile_run, tmp_path, look):
    with in_thread(copied(hostile_run, tmp_path)) as address, look(address) as seen:
        assert "</script><script>window.hacked=1</script>" in seen.page.locator("h1").inner_text()
        seen.rename("new-1", "<img src=x onerror=window.hacked=1>")
        seen.card("new-1").locator("[role=option]").first.dblclick()
        seen.page.locator("dialog .whole-text").wait_for()
        assert "<img src=x" in seen.page.locator("dialog .whole-text").inner_text()
        assert seen.page.evaluate("window.hacked") is None
        assert seen.page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_nothing_is_cut_off_and_everything_has_a_name(width, scheme, digits_run, tmp_path, look):
    with in_thread(copied(digits_run, tmp_path)) as address, look(address, width=width, scheme=scheme) as seen:
        page = seen.page
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, input, select, a')]"
            ".filter(e => !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels?.length).length"
        )
        assert nameless == 0
        seen.card("new-1").get_by_role("button", name="Split …").click()
        page.locator("#preview").wait_for()
        box = page.locator("dialog").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        page.keyboard.press("Escape")
        assert page.locator("dialog").count() == 0


class Client:
    """Asks a studio as its page does, without a browser."""

    def __init__(self, address: str) -> None:
        self.origin, _, _ = address.rpartition("/?")
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            opener.open(address)
        except urllib.error.HTTPError as answer:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            answer.close()

    def ask(self, path: str, content: dict[str, Any] | None = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        headers = {"cookie": self.cookie, "origin": self.origin, "content-type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(self.origin + path, body, headers), timeout=60
        ) as answer:
            return json.load(answer)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def killed_while_editing(run: Path, process: Any, rng: random.Random) -> None:
    """Kill a studio at a moment of a stream of operations; all that it had answered has to be there."""
    studio = process(run)
    client = Client(studio.address)
    answered = client.ask("/api/state")["n"]
    timer = threading.Timer(rng.uniform(0.02, 0.6), studio.process.kill)
    timer.start()
    with contextlib.suppress(OSError, ValueError, urllib.error.URLError, HTTPException):
        for i in range(10_000):
            operations: list[tuple[str, dict[str, Any]]] = [
                ("move", {"rows": [rng.randrange(240)], "kind": rng.choice(["new-1", "new-2", "card"])}),
                ("rename", {"kind": "new-1", "name": f"name {i} {rng.random()}"}),
                ("create", {"rows": [rng.randrange(240)]}),
                ("undo", {}),
            ]
            operation, content = operations[i % 4]
            with contextlib.suppress(urllib.error.HTTPError):
                answered = client.ask(f"/api/do/{operation}", content)["n"]
    timer.join()
    studio.end()
    state = EditedRun(run)
    assert answered <= len(state.entries) <= answered + 1
    assert sum(category["size"] for category in state.record["categories"]) == len(state.samples.categories)
    again = process(run)
    assert Client(again.address).ask("/api/state")["n"] == len(state.entries)
    again.end()


def test_a_killed_studio_has_lost_nothing(texts_run, tmp_path, process):
    run = copied(texts_run, tmp_path)
    rng = random.Random(0)
    for _ in range(2):
        killed_while_editing(run, process, rng)


@pytest.mark.slow
def test_a_studio_killed_at_many_moments_has_lost_nothing(texts_run, tmp_path, process):
    run = copied(texts_run, tmp_path)
    rng = random.Random(1)
    for _ in range(20):
        killed_while_editing(run, process, rng)


@pytest.mark.slow
def test_a_studio_killed_during_a_refit_has_lost_nothing(digits_run, tmp_path, process):
    """Twenty moments: every other one while the refit trains or writes, the others at any time from its start."""
    run = copied(digits_run, tmp_path)
    rng = random.Random(2)
    studio = process(run)
    client = Client(studio.address)
    n = client.ask("/api/do/merge", {"kinds": ["new-1", "new-2"], "into": "new-1"})["n"]
    began = time.monotonic()
    client.ask("/api/refit/start", {})
    wait_for_refit(client, math.inf)
    whole = time.monotonic() - began
    n += 1
    for moment in range(20):
        client.ask("/api/refit/start", {})
        if moment % 2:
            wait_for_refit(client, rng.randrange(0, 30))
        else:
            time.sleep(rng.uniform(0, 1.1 * whole))
        studio.end()
        state = EditedRun(run)
        assert n <= len(state.entries) <= n + 1
        assert sum(category["size"] for category in state.record["categories"]) == 1797
        studio = process(run)
        client = Client(studio.address)
        n = client.ask("/api/state")["n"]
        assert n == len(EditedRun(run).entries)
    client.ask("/api/refit/start", {})
    wait_for_refit(client, math.inf)
    assert client.ask("/api/refit")["job"]["state"] == "done"
    assert verify_run(run)


def wait_for_refit(client: Client, step: float) -> None:
    """Wait until a refit has come so far, or has ended."""

    def has_come() -> bool:
        job = client.ask("/api/refit")["job"]
        has_trained = job["stage"] == "writing the version" or (job["stage"] == "refitting" and job["done"] >= step)
        return job["state"] != "running" or (has_trained and step < math.inf)

    until(has_come, "for the refit")


def test_the_command_prints_one_address_and_a_second_is_refused(texts_run, tmp_path, process):
    run = copied(texts_run, tmp_path)
    studio = process(run)
    assert studio.address.startswith("http://127.0.0.1:")
    command = [sys.executable, "-m", "newkinds", "studio", str(run), "--no-browser"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 2
    assert "is open already" in second.stderr
    assert "Traceback" not in second.stderr
    studio.process.send_signal(signal.SIGINT)
    assert studio.process.wait(20) in (0, 130)
