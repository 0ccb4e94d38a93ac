"""Pages in a real browser, from the disk, with the network off."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds.comparing import compare_runs
from newkinds.editing import rename
from newkinds.report import write_report
from newkinds.report.comparison import make_comparison
from tests.report.pages import read_page

PATIENCE = 20_000
"""Milliseconds."""


@dataclass
class Look:
    """A page that is looked at, with all that went wrong in it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def until(self, expression: str) -> None:
        """Wait until an expression is true. (The page's policy forbids Playwright's own way.)"""
        end = time.monotonic() + PATIENCE / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"waited in vain for {expression}"
            time.sleep(0.05)

    def card(self, key: str) -> Any:
        return self.page.locator(f'article[data-kind="{key}"]')


@pytest.fixture
def look(browser: Any) -> Callable[..., Any]:
    @contextmanager
    def opened(path: Path, *, width: int = 1280, scheme: str = "light", query: str = "") -> Iterator[Look]:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, has_touch=width < 600
        )
        context.set_default_timeout(PATIENCE)
        look = Look(context.new_page())
        look.page.on("console", lambda m: look.errors.append(m.text) if m.type == "error" else None)
        look.page.on("pageerror", lambda error: look.errors.append(str(error)))
        look.page.on("request", lambda request: look.requests.append(request.url))
        address = path.as_uri() + query
        look.page.goto(address)
        yield look
        assert look.errors == []
        assert [url for url in look.requests if url != address and not url.startswith("data:")] == []
        context.close()

    return opened


def words(locator: Any) -> str:
    return " ".join(locator.inner_text().split())


# The words


def test_digits_are_summed_up_in_words_and_new_kinds_come_first(digits_run, look):
    with look(digits_run / "report.html") as seen:
        assert seen.page.title() == "handwritten digits: kinds found by Newkinds"
        summary = words(seen.page.locator("#summary"))
        assert "1,797 samples. Five kinds were known; five more were found." in summary
        assert "unlabelled belong to the new ones." in summary
        assert "λ" not in summary
        tops = [seen.page.locator(name).bounding_box()["y"] for name in ("#map", "#new", "#known", "#how")]
        assert tops == sorted(tops)
        assert seen.page.locator("#new article").count() == 5
        assert not seen.page.get_by_text("temperature", exact=True).is_visible()


def test_a_card_says_how_large_how_sure_and_shows_samples(digits_run, look):
    with look(digits_run / "report.html") as seen:
        card = seen.card("new-1")
        card.scroll_into_view_if_needed()
        content = read_page(digits_run / "report.html").categories["new-1"]
        said = words(card)
        assert f"{content['size']} samples" in said
        assert "suggested" in said
        assert "new-1" in said
        assert f"{round(100 * content['clear'])} % clear" in said
        assert card.locator("img").count() >= len(content["typical"])
        size = card.locator("img").first.bounding_box()
        assert size["width"] >= 64
        assert seen.page.evaluate("document.querySelector('#new article img').naturalWidth") == 8


def test_texts_are_shown_in_full_lines_and_named_by_their_words(texts_run, look):
    with look(texts_run / "report.html") as seen:
        assert "240 texts. Two kinds were known; two more were found." in words(seen.page.locator("#summary"))
        shown = [words(seen.card(key)) for key in ("new-1", "new-2")]
        assert any("PIN" in text for text in shown)
        assert any("fee was charged, number" in text or "fee" in text for text in shown)
        assert all("suggested" in text for text in shown)


def test_photos_are_pictures(photos_run, look):
    with look(photos_run / "report.html") as seen:
        assert "90 photos. Two kinds were known; one more was found." in words(seen.page.locator("#summary"))
        card = seen.card("new-1")
        card.scroll_into_view_if_needed()
        picture = card.locator("img").first
        picture.wait_for()
        seen.until("document.querySelector('#new article img').naturalWidth === 128")
        assert picture.get_attribute("src").startswith("data:image/webp;base64,")


def test_a_name_that_a_person_gave_is_shown_without_a_mark(texts_run, look, tmp_path):
    run = Path(shutil.copytree(texts_run, tmp_path / "run"))
    rename(run, "new-1", "lost PIN")
    write_report(run)
    with look(run / "report.html") as seen:
        said = words(seen.card("new-1"))
        assert "lost PIN" in said
        assert "suggested" not in said


# The map


@pytest.mark.parametrize("renderer", ["webgl2", "canvas"])
def test_the_map_draws_every_sample_and_answers(digits_run, look, renderer):
    with look(digits_run / "report.html", query=f"?map={renderer}") as seen:
        seen.until("window.newkinds && window.newkinds.drawn > 0")
        assert seen.page.locator(".stage").get_attribute("data-renderer") == renderer
        assert seen.page.evaluate("window.newkinds.drawn") == 1797
        canvas = seen.page.locator("#map-canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        tip = seen.page.locator("#map-tip")
        place = hovered(seen, box, tip)
        assert place is not None, "no sample answered"
        assert tip.locator("img").count() == 1
        seen.page.mouse.click(*place)
        seen.until("document.querySelector('article.lit, article.open.lit, article:focus-within') !== null")


def hovered(seen: Look, box: dict[str, float], tip: Any) -> tuple[float, float] | None:
    """A place on the map where a sample shows its tip."""
    for across in np.linspace(0.3, 0.7, 9):
        for down in np.linspace(0.3, 0.7, 9):
            place = (box["x"] + across * box["width"], box["y"] + down * box["height"])
            seen.page.mouse.move(*place)
            seen.page.wait_for_timeout(20)
            if tip.is_visible():
                return place
    return None


def test_the_map_is_moved_by_wheel_drag_and_keys(digits_run, look):
    with look(digits_run / "report.html") as seen:
        seen.until("window.newkinds && window.newkinds.drawn > 0")
        canvas = seen.page.locator("#map-canvas")
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

        def frames() -> int:
            return int(seen.page.evaluate("window.newkinds.frames"))

        before = frames()
        seen.page.mouse.move(*middle)
        seen.page.mouse.down()
        seen.page.mouse.move(middle[0] + 80, middle[1] + 40, steps=4)
        seen.page.mouse.up()
        seen.until(f"window.newkinds.frames > {before}")
        before = frames()
        canvas.focus()
        seen.page.keyboard.press("+")
        seen.until(f"window.newkinds.frames > {before}")
        before = frames()
        seen.page.keyboard.press("0")
        seen.until(f"window.newkinds.frames > {before}")


def test_the_legend_lights_a_kind(digits_run, look):
    with look(digits_run / "report.html") as seen:
        seen.until("window.newkinds && window.newkinds.drawn > 0")
        entry = seen.page.locator('[data-legend="new-2"]')
        before = seen.page.evaluate("window.newkinds.frames")
        entry.click()
        seen.until(f"window.newkinds.frames > {before}")
        assert entry.get_attribute("aria-pressed") == "true"


def test_a_run_without_a_map_has_none(tmp_path, look, texts_run):
    run = Path(shutil.copytree(texts_run, tmp_path / "run"))
    write_report(run, with_map=False)
    with look(run / "report.html") as seen:
        assert seen.page.locator("#map").count() == 0
        assert seen.page.locator("#new article").count() == 2


# Finding one's way


def test_searching_and_sorting(digits_run, look):
    with look(digits_run / "report.html") as seen:
        cards = seen.page.locator("#new article")

        def keys() -> list[str]:
            return [card.get_attribute("data-kind") for card in cards.all() if card.is_visible()]

        assert keys() == ["new-1", "new-2", "new-3", "new-4", "new-5"]
        seen.page.locator("#new input[type=search]").fill("new-3")
        seen.until("document.querySelectorAll('#new article').length === 1")
        assert keys() == ["new-3"]
        seen.page.locator("#new input[type=search]").fill("")
        seen.until("document.querySelectorAll('#new article').length === 5")
        options = seen.page.locator("#new select option").all_inner_texts()
        assert len(options) >= 3
        orders = []
        for number in range(len(options)):
            seen.page.locator("#new select").select_option(index=number)
            seen.page.wait_for_timeout(100)
            orders.append(tuple(keys()))
        assert all(sorted(order) == ["new-1", "new-2", "new-3", "new-4", "new-5"] for order in orders)
        assert len(set(orders)) >= 2


def test_known_kinds_are_folded_and_open_by_a_click(digits_run, look):
    with look(digits_run / "report.html") as seen:
        card = seen.card("3")
        assert card.locator("img").count() == 0
        card.locator("button.fold").click()
        card.locator("img").first.wait_for()
        assert "Typical" in card.inner_text()


def test_the_page_can_be_walked_with_the_keyboard_alone(digits_run, look):
    with look(digits_run / "report.html") as seen:
        focused = set()
        for _ in range(60):
            seen.page.keyboard.press("Tab")
            name = seen.page.evaluate(
                "(e => e.id || e.dataset.legend || e.className || e.tagName)(document.activeElement)"
            )
            visible = seen.page.evaluate(
                "(e => { const s = getComputedStyle(e); "
                "return s.outlineStyle !== 'none' || s.boxShadow !== 'none' || e.type === 'radio'; })"
                "(document.activeElement)"
            )
            assert visible, f"the focus on {name} cannot be seen"
            focused.add(name)
        assert "map-canvas" in focused
        assert "theme" in focused
        assert len(focused) >= 8


def test_the_theme_follows_the_system_and_can_be_changed(digits_run, look):
    def background(seen: Look) -> int:
        colour = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3])

    with look(digits_run / "report.html", scheme="dark") as seen:
        assert background(seen) < 200
        seen.page.locator("#theme").click()
        assert background(seen) > 600
    with look(digits_run / "report.html") as seen:
        assert background(seen) > 600


@pytest.mark.parametrize("run_name", ["digits_run", "texts_run", "photos_run", "hostile_run"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_telephone_nothing_scrolls_sideways(run_name, scheme, look, request):
    with look(request.getfixturevalue(run_name) / "report.html", width=390, scheme=scheme) as seen:
        seen.page.locator("#new article").first.wait_for()
        for fold in seen.page.locator("#known button.fold").all()[:2]:
            fold.click()
        for fold in seen.page.locator("#how summary, #how button.fold").all():
            fold.click()
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_truth_shows_accuracy_confusions_and_reliability(digits_run, look):
    with look(digits_run / "report.html") as seen:
        truth = read_page(digits_run / "report.html").content["truth"]
        said = words(seen.page.locator("#truth"))
        assert f"{round(100 * truth['all'])} %" in said
        assert seen.page.locator("#truth svg").count() >= 1


def test_printing_shows_every_card(digits_run, look):
    with look(digits_run / "report.html") as seen:
        seen.page.emulate_media(media="print")
        seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        seen.until("[...document.querySelectorAll('#new article')].every(c => c.querySelector('img'))")


# Safety


def test_nothing_in_a_hostile_run_runs(hostile_run, look):
    with look(hostile_run / "report.html") as seen:
        seen.page.locator("#new article").first.wait_for()
        for fold in seen.page.locator("#known button.fold").all():
            fold.click()
        seen.page.wait_for_timeout(300)
        assert seen.page.evaluate("window.hacked") is None
        assert seen.page.locator("img[src=x]").count() == 0
        assert seen.page.locator("script").count() == 5  # four blocks of data, and the page's own
        assert "</script><script>" in seen.page.locator("#known").inner_text()
        assert "window.hacked=1" in seen.page.title()


def test_the_policy_forbids_every_other_script(digits_run, tmp_path, look):
    html = (digits_run / "report.html").read_text("utf-8")
    changed = html.replace(
        "</body>", "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'></body>"
    )
    (tmp_path / "page.html").write_text(changed, "utf-8")
    with look(tmp_path / "page.html") as seen:
        seen.page.locator("#new article").first.wait_for()
        assert seen.page.evaluate("window.hacked") is None
        assert any("Content Security Policy" in error for error in seen.errors)
        seen.errors.clear()
        seen.requests.clear()


# Other pages


def test_the_page_of_an_old_run(tmp_path, look):
    old = Path(__file__).parents[1] / "old_runs" / "pim"
    run = Path(shutil.copytree(old, tmp_path / "run"))
    write_report(run)
    with look(run / "report.html") as seen:
        assert "suggested" not in seen.page.locator("#new").inner_text()
        assert seen.page.locator("#new article").count() == 1


def test_a_comparison_in_the_browser(digits_run, tmp_path, look):
    after = Path(shutil.copytree(digits_run, tmp_path / "after"))
    rename(after, "new-1", "five")
    page = tmp_path / "page.html"
    page.write_bytes(make_comparison(compare_runs(digits_run, after), digits_run, after).encode())
    with look(page) as seen:
        said = words(seen.page.locator("body"))
        assert "None of the 1,797 samples changed its kind." in said
        assert "One kind has another name." in said
        assert "is now five" in said
