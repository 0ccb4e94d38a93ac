"""Settings for all tests."""

from hypothesis import settings

# The same examples every time: a change is judged by what it changes, not by luck.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
