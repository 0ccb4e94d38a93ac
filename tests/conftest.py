"""Settings for all tests."""

import os

# Before anything imports PyTorch: the problems of tests are tiny, and threads that wait for each other take longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Before anything imports huggingface_hub: no test may need a network.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from hypothesis import settings

from tests.browsers import browser as browser

# The same examples every time: a change is judged by what it changes, not by luck.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="every moment to be killed at, not a sample of them")
