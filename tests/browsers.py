"""A browser to look at pages with, one for all tests of a process."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; where there is none, the tests that need it are skipped."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="pages are looked at with Playwright: pip install playwright"
    )
    if CHROMIUM is None:
        assert "CI" not in os.environ, "the checks of a change need a browser: .ci/run installs chromium"
        pytest.skip("there is no Chromium to look at pages with")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
