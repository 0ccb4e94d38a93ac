"""The options that commands share become what the encoders take."""

from pathlib import Path

import pytest

from newkinds import InputError
from newkinds.commands.collecting import make_encoding


def test_every_option_reaches_the_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWKINDS_CACHE", "default")
    plain = make_encoding(None, "cpu", None, False, None, False)
    assert (plain.name, plain.half, plain.cache, plain.workers) == (None, None, Path("default"), None)
    asked = make_encoding("tiny", "cuda", Path("own"), False, 3, True)
    assert (asked.name, asked.device, asked.half, asked.cache, asked.workers) == (
        "tiny",
        "cuda",
        False,  # --full-precision
        Path("own"),
        3,
    )
    assert make_encoding(None, "cpu", None, True, None, False).cache is None


def test_a_cache_and_none_contradict_each_other() -> None:
    with pytest.raises(InputError, match="contradict each other"):
        make_encoding(None, "cpu", Path("own"), True, None, False)
