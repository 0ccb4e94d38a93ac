"""Damage done to files, and what may come of it: a refusal or the same answer, never a traceback or another answer.

A `Target` says how its files are made, which one is damaged, how they are used, and whether the answer has to stay
the same. `tests/test_fuzz.py` tries a few damages of each target, `benchmarks/fuzz.py` thousands.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newkinds.errors import InputError
from tests.commands.command_line import invoke

Damage = Callable[[bytes], bytes]
Outcome = Literal["same", "other", "refused"]


class Refused(Exception):
    """The files were refused as they should be: by an error that is one line."""


@dataclass(frozen=True)
class Target:
    """What is damaged, and what happens then.

    Attributes
    ----------
    name : str
    make : function of a folder
        Makes the files in an empty folder.
    file : str
        The file that is damaged.
    damages : function of the file's content
        A strategy that draws the damaged content.
    use : function of the folder
        Uses the files and returns the answer; `Refused` or InputError if they are refused.
    must_agree : bool
        Whether an answer that differs from that of the untouched files is a fault.
    """

    name: str
    make: Callable[[Path], None]
    file: str
    damages: Callable[[bytes], st.SearchStrategy[bytes]]
    use: Callable[[Path], Any]
    must_agree: bool = True


@dataclass(frozen=True)
class Fault:
    """A damage that neither was refused nor left the answer as it was."""

    content: bytes
    reason: str


def command_answer(*arguments: object) -> str:
    """Standard output of a command; `Refused` if it ends with exit code 2 and one line that names the reason."""
    result = invoke(*arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == 0:
        return str(result.stdout)
    lines = result.stderr.strip().splitlines()
    assert result.exit_code == 2, (result.exit_code, result.stderr)
    assert lines, "an exit code without a reason"
    assert lines[-1].startswith("Error: "), result.stderr
    assert "Traceback" not in result.output
    raise Refused(lines[-1])


def outcomes(target: Target, folder: Path, n_examples: int) -> Iterator[tuple[Outcome, Fault | None]]:
    """Damage a target again and again: what came of it, and the fault if there is one."""
    target.make(folder)
    path = folder / target.file
    content = path.read_bytes()
    right = target.use(folder)
    results: list[tuple[Outcome, Fault | None]] = []

    @settings(max_examples=n_examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(damaged=target.damages(content))
    def attempt(damaged: bytes) -> None:
        path.write_bytes(damaged)
        try:
            answer = target.use(folder)
        except (Refused, InputError) as refusal:
            is_named = target.file in str(refusal)
            fault = None if is_named else Fault(damaged, f"the error does not name the file: {refusal}")
            results.append(("refused", fault))
            return
        except Exception as error:  # whatever it is, it is what we look for
            results.append(("other", Fault(damaged, f"{type(error).__name__}: {error}")))
            return
        if answer == right:
            results.append(("same", None))
            return
        results.append(("other", Fault(damaged, "another answer") if target.must_agree else None))

    attempt()
    yield from results


def damaged_bytes(content: bytes) -> st.SearchStrategy[bytes]:
    """Bytes flipped, cut off, taken out, put in or doubled."""
    place = st.integers(0, len(content))

    def flip(at: int, bits: int) -> bytes:
        at = min(at, len(content) - 1)
        return content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]

    def cut_out(at: int, n: int) -> bytes:
        return content[:at] + content[at + n :]

    def put_in(at: int, more: bytes) -> bytes:
        return content[:at] + more + content[at:]

    def overwrite(at: int, more: bytes) -> bytes:
        return content[:at] + more + content[at + len(more) :]

    some = st.binary(min_size=1, max_size=16)
    return st.one_of(
        st.builds(flip, place, st.integers(1, 255)),
        st.builds(flip, place, st.integers(1, 255)),
        st.builds(lambda at: content[:at], place),
        st.builds(cut_out, place, st.integers(1, 64)),
        st.builds(put_in, place, some),
        st.builds(overwrite, place, some),
        st.just(b""),
    )


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 10**6, 2**31, 2**62, -(2**63), 0.5, -0.0, 1e-320, 5e-324, 1e99, -1e99),
    *(
        1e300,
        -1e308,
        2**63,
        10**400,
        "",
        "x",
        "new-1",
        "known",
        "new",
        "\x1b[31m",
        "\ud800",
        "<script>",
        "a" * 5000,
    ),
    *([], {}, [[]], [None], [0, 1], [1, 0], [[0.1, 0.5]], [[1, 2, 3]], ["x"], {"x": 1}, {"name": "x"}),
)
ODD_TEXTS = {
    "many digits": "9" * 5000,
    "deep lists": "[" * 10**5,
    "deep objects": '{"a":' * 10**5,
    **{text: text for text in ("NaN", "Infinity", "-Infinity", "1e999", "null", ",", "}", '"')},
}
"""What is put in place of a value, by its name: the texts themselves are too long to be printed."""
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (key,)
        for rest in places(item):
            yield (key, *rest)


def damaged_json(content: bytes) -> st.SearchStrategy[bytes]:
    """One value of a JSON file taken away, replaced, changed a little, doubled; or its text damaged."""
    ways = list(places(json.loads(content)))

    def edited(way: tuple[str | int, ...], edit: Callable[[Any, Any], None]) -> bytes:
        record = json.loads(content)
        parent = record
        for key in way[:-1]:
            parent = parent[key]
        edit(parent, way[-1])
        return json.dumps(record, ensure_ascii=True).encode()

    def delete(parent: Any, key: Any) -> None:
        del parent[key]

    def replace_by(new: Any) -> Callable[[Any, Any], None]:
        def edit(parent: Any, key: Any) -> None:
            parent[key] = new

        return edit

    def nudge(parent: Any, key: Any) -> None:
        value = parent[key]
        if isinstance(value, bool) or value is None:
            parent[key] = not value
        elif isinstance(value, int | float):
            parent[key] = value + 1
        elif isinstance(value, str):
            parent[key] = value + "x"
        elif isinstance(value, list):
            parent[key] = value + value[-1:]
        else:
            parent[key] = dict(list(value.items())[:-1])

    def retype(parent: Any, key: Any) -> None:
        value = parent[key]
        if isinstance(value, str) or value is None:
            parent[key] = [value]
        elif isinstance(value, list):
            parent[key] = {str(place): item for place, item in enumerate(value)}
        elif isinstance(value, dict):
            parent[key] = list(value.values())
        else:
            parent[key] = str(value)

    def inserted(way: tuple[str | int, ...], text: str) -> bytes:
        mark = "a value that is nowhere else"
        return edited(way, replace_by(mark)).replace(json.dumps(mark).encode(), ODD_TEXTS[text].encode())

    def said_twice(way: tuple[str | int, ...]) -> bytes:
        key = json.dumps(way[-1]).encode()
        return edited(way, lambda *_: None).replace(key + b":", key + b": 1, " + key + b":", 1)

    parts = {
        first[0]: [way for way in ways if way[0] == first[0]] for first in ways
    }  # as often the short as the long
    way = st.sampled_from(list(parts)).flatmap(lambda part: st.sampled_from(parts[part]))
    edit = st.one_of(
        st.sampled_from([delete, nudge, retype]),
        st.builds(replace_by, st.sampled_from(ODD_VALUES)),
        st.builds(replace_by, JSON_VALUES),
    )
    return st.one_of(
        st.builds(edited, way, edit),
        st.builds(edited, way, edit),
        st.builds(edited, way, edit),
        st.builds(inserted, way, st.sampled_from(sorted(ODD_TEXTS))),
        st.builds(said_twice, way),
        damaged_bytes(content),
    )
