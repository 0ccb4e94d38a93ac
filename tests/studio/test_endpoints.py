"""What a studio answers: the state, its samples, operations, previews, what goes out."""

import base64
import io
import threading
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pytest

from newkinds.editing import EditedRun, rename
from newkinds.run_folder import read_predictions, read_run
from newkinds.studio.live_run import LiveRun
from tests.arrivals import N_NEW, arrive
from tests.studio.conftest import asked, copied, until


def points(client):
    """Numbers about every sample, by name, and the state that they are of."""
    content = client.get("/api/points").content
    n, count, has_map, _ = np.frombuffer(content[:16], "<u4").tolist()
    shapes = {"slot": "<u2", **({"x": "<u2", "y": "<u2"} if has_map else {}), "confidence": "u1", "novelty": "u1"}
    at, arrays = 16, {}
    for name, kind in {**shapes, "given": "u1"}.items():
        arrays[name] = np.frombuffer(content, kind, count, at)
        at += arrays[name].nbytes
    assert at == len(content)
    return n, arrays


def changed(change):
    """The samples of a change, by name."""
    n, content = change["samples"]["n"], base64.b64decode(change["samples"]["bytes"])
    arrays, at = {}, 0
    for name, kind in {"row": "<u4", "slot": "<u2", "confidence": "u1", "novelty": "u1", "given": "u1"}.items():
        arrays[name] = np.frombuffer(content, kind, n, at)
        at += arrays[name].nbytes
    return arrays


def do(client, op, /, **content):
    answer = client.post(f"/api/do/{op}", json=content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def kinds(client):
    return {category["key"]: category for category in client.get("/api/state").json()["categories"]}


def follow(arrays, cards, change):
    """What a page does with a change."""
    samples = changed(change)
    for name in ("slot", "confidence", "novelty", "given"):
        arrays[name] = arrays[name].copy()
        arrays[name][samples["row"]] = samples[name]
    gone = set(change["gone"])
    cards = {key: card for key, card in cards.items() if card["slot"] not in gone}
    return arrays, cards | {card["key"]: card for card in change["categories"]}


def test_state_and_points_say_all_that_a_page_shows(digits_client, digits_run):
    state = digits_client.get("/api/state").json()
    assert (state["n"], state["title"], state["n_samples"]) == (0, "handwritten digits", 1797)
    assert (state["undo"], state["redo"], state["pictures"], state["pixelated"]) == (None, None, True, True)
    table = read_predictions(digits_run)
    n, arrays = points(digits_client)
    assert n == 0
    slots = {c["id"]: kinds(digits_client)[c["key"]]["slot"] for c in read_run(digits_run)["categories"]}
    assert [slots[i] for i in table["category"].to_pylist()] == arrays["slot"].tolist()
    assert np.allclose(arrays["confidence"] / 255, table["confidence"].to_numpy(), atol=0.003)
    assert len(np.unique(arrays["x"])) > 100


def test_changes_bring_a_page_to_the_same_state_as_loading_it_anew(digits_client):
    _, arrays = points(digits_client)
    cards = kinds(digits_client)
    preview = digits_client.post("/api/preview/split", json={"kind": "new-2", "k": 2}).json()
    steps: list[tuple[str, dict[str, Any]]] = [
        ("rename", {"kind": "new-1", "name": "eight"}),
        ("merge", {"kinds": ["new-3", "new-4"], "into": "new-3"}),
        ("split", {"kind": "new-2", "preview": preview["preview"]}),
        ("move", {"rows": [1, [5, 9], 1796], "kind": "new-1"}),
        ("confirm", {"rows": [20]}),
        ("create", {"rows": [[30, 40]], "name": "odd ones"}),
        ("dissolve", {"kind": "new-5"}),
        ("undo", {}),
        ("undo", {}),
        ("redo", {}),
    ]
    for n, (name, content) in enumerate(steps):
        change = do(digits_client, name, **content)
        assert (change["before"], change["n"]) == (n, n + 1)
        arrays, cards = follow(arrays, cards, change)
        n_now, now = points(digits_client)
        assert n_now == n + 1
        for part in now:
            assert np.array_equal(now[part], arrays[part]), (name, part)
        fresh = kinds(digits_client)
        assert cards.keys() == fresh.keys()
        for key, card in fresh.items():  # who is nearest may change with kinds elsewhere
            parts = {part for part in card if part != "nearest"}
            assert {p: cards[key][p] for p in parts} == {p: card[p] for p in parts}, (name, key)
    state = digits_client.get("/api/state").json()
    assert state["undo"]["op"] == "create"
    assert state["redo"]["op"] == "dissolve"


def test_everything_is_in_the_journal_at_once(digits_run, tmp_path):
    run = copied(digits_run, tmp_path)
    with asked(run) as client:
        do(client, "rename", kind="new-1", name="eight")
        do(client, "move", rows=[3], kind="new-1")
        reader = EditedRun(run)
        assert reader.category("eight")["key"] == "new-1"
        assert [entry.op for entry in reader.entries] == ["rename", "move"]
        assert bool(reader.samples.confirmed[3])


def test_what_the_command_line_does_shows_in_the_studio(digits_run, tmp_path):
    run = copied(digits_run, tmp_path)
    with asked(run) as client:
        rename(run, "new-1", "eight")
        until(lambda: client.get("/api/state").json()["n"] == 1)
        assert kinds(client)["new-1"]["name"] == "eight"
        do(client, "rename", kind="new-2", name="nine")
        assert EditedRun(run).category("nine")["key"] == "new-2"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rename", {"kind": "new-1"}, "lacks name"),
        ("rename", {"kind": "new-1", "name": 7}, "name should be a text"),
        ("rename", {"kind": "new-1", "name": "  "}, "at least one letter"),
        ("rename", {"kind": "new-99", "name": "x"}, "There is no kind 'new-99' any more"),
        ("rename", {"kind": "new-1", "name": "new-2"}, "another category is called"),
        ("merge", {"kinds": ["new-1"], "into": "new-1"}, "two different categories"),
        ("merge", {"kinds": ["0", "1"], "into": "0"}, "are known"),
        ("move", {"rows": [5000], "kind": "new-1"}, "beyond the last"),
        ("move", {"rows": [], "kind": "new-1"}, "select some"),
        ("move", {"rows": [-1], "kind": "new-1"}, "rows should be"),
        ("move", {"rows": "all", "kind": "new-1"}, "rows should be"),
        ("move", {"rows": [[5, 3]], "kind": "new-1"}, "rows should be"),
        ("move", {"kind": "new-1"}, "select some"),
        ("confirm", {"seen": [1]}, "seen should be an object"),
        ("confirm", {"seen": {"new-1": "all"}}, "seen.'new-1' should be rows"),
        ("confirm", {"seen": {"new-1": [5000]}}, "beyond the last"),
        ("create", {"seen": {"new-1": []}}, "select some"),
        ("split", {"kind": "new-1", "preview": "old"}, "preview is too old"),
        ("undo", {}, "nothing to undo"),
        ("redo", {}, "nothing to redo"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(name, content, said, digits_client):
    answer = digits_client.post(f"/api/do/{name}", json=content)
    assert answer.status_code in (400, 409)
    assert said.lower() in answer.json()["error"].lower()
    assert digits_client.get("/api/state").json()["n"] == 0


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"kind": NaN}'])
def test_a_request_that_is_no_object_is_refused(body, digits_client):
    answer = digits_client.post("/api/do/rename", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400


def test_undo_is_of_what_the_page_shows(digits_client):
    do(digits_client, "rename", kind="new-1", name="one")
    do(digits_client, "rename", kind="new-2", name="two")
    answer = digits_client.post("/api/do/undo", json={"entry": 1})
    assert answer.status_code == 409
    assert "something else was done meanwhile" in answer.json()["error"].lower()
    assert do(digits_client, "undo", entry=2)["redo"]["n"] == 2


def meanwhile(client, run, path, content, act):
    """The answer to a request that has to wait for somebody who holds the run and does something to it."""
    answers: list[Any] = []
    other = EditedRun(run)
    asking = threading.Thread(target=lambda: answers.append(client.post(path, json=content)))
    with other.held():
        asking.start()
        asking.join(0.4)
        act(other)
    asking.join()
    return answers[0]


def test_undo_and_redo_are_of_what_the_page_shows_whoever_comes_between(digits_run, tmp_path):
    run = copied(digits_run, tmp_path)
    with asked(run) as client:
        do(client, "rename", kind="new-1", name="one")
        act = "/api/do/undo", {"entry": 1}
        answer = meanwhile(client, run, *act, lambda other: other.rename("new-2", "two"))
        assert (answer.status_code, EditedRun(run).entries[-1].op) == (409, "rename")
        assert "something else was done meanwhile" in answer.json()["error"].lower()
        do(client, "undo", entry=2)
        again = meanwhile(client, run, "/api/do/redo", {"entry": 2}, lambda other: other.rename("new-2", "three"))
        assert again.status_code == 409
        assert [category["name"] for category in kinds(client).values() if category["name"]][-2:] == [
            "one",
            "three",
        ]
        nothing = client.post("/api/do/redo", json={"entry": 2})
        assert nothing.status_code == 409


def test_a_preview_of_a_split_is_compared_with_the_kind_while_nobody_can_change_it(digits_run, tmp_path):
    run = copied(digits_run, tmp_path)
    with asked(run) as client:
        preview = client.post("/api/preview/split", json={"kind": "new-1", "k": 2}).json()["preview"]
        row = kinds(client)["new-1"]["typical"][0]
        answer = meanwhile(
            client, run, "/api/do/split", {"kind": "new-1", "preview": preview}, lambda o: o.move([row], "new-2")
        )
        assert answer.status_code == 409
        assert "has changed since" in answer.json()["error"]


@pytest.mark.parametrize(("name", "more"), [("confirm", {}), ("move", {"kind": "new-3"}), ("create", {})])
def test_samples_that_went_elsewhere_are_left_alone(name, more, digits_run, tmp_path):
    """A page that has missed something says where it saw its samples."""
    run = copied(digits_run, tmp_path)
    with asked(run) as client:
        one, two = kinds(client)["new-1"]["typical"][:2]
        other = kinds(client)["new-2"]["typical"][0]
        seen = {"new-1": sorted([one, two]), "new-2": [other]}
        EditedRun(run).move([two], "new-2")
        answer = client.post(f"/api/do/{name}", json={"seen": seen, **more})
        assert answer.status_code == 409
        assert answer.json()["error"].startswith("1 of these 3 samples went to another kind meanwhile")
        alone = client.post(f"/api/do/{name}", json={"seen": {"new-1": [two]}, **more})
        assert alone.json()["error"].startswith("This sample went to another kind")
        gone = client.post(f"/api/do/{name}", json={"seen": {"new-99": [two]}, **more})
        assert gone.status_code == 409
        assert len(EditedRun(run).entries) == 1
        do(client, name, seen={"new-1": [one], "new-2": sorted([other, two])}, **more)
        assert EditedRun(run).samples.confirmed[[one, two, other]].all()


def test_where_samples_were_seen_is_compared_while_nobody_can_move_them(digits_run, tmp_path):
    run = copied(digits_run, tmp_path)
    with asked(run) as client:
        row = kinds(client)["new-1"]["typical"][0]
        act = "/api/do/confirm", {"seen": {"new-1": [row]}}
        answer = meanwhile(client, run, *act, lambda other: other.move([row], "new-2"))
        assert (answer.status_code, len(EditedRun(run).entries)) == (409, 1)


def test_a_split_is_done_as_it_was_previewed_or_not_at_all(digits_client):
    preview = digits_client.post("/api/preview/split", json={"kind": "new-1", "k": 3}).json()
    sizes = [part["size"] for part in preview["parts"]]
    assert len(sizes) == 3
    assert sum(sizes) == kinds(digits_client)["new-1"]["size"]
    assert all(len(part["typical"]) == 12 for part in preview["parts"])
    do(digits_client, "split", kind="new-1", preview=preview["preview"])
    now = kinds(digits_client)
    assert [now[key]["size"] for key in ("new-1", "new-6", "new-7")] == sizes
    again = digits_client.post("/api/do/split", json={"kind": "new-1", "preview": preview["preview"]})
    assert again.status_code == 409
    assert "has changed since" in again.json()["error"]


def test_a_merge_is_previewed_with_who_stays(digits_client):
    do(digits_client, "rename", kind="new-2", name="nine")
    preview = digits_client.post("/api/preview/merge", json={"kinds": ["new-2", "new-1"]}).json()
    sizes = [kinds(digits_client)[key]["size"] for key in ("new-1", "new-2")]
    assert preview["size"] == sum(sizes)
    assert preview["into"] == "new-1"
    assert preview["name"] == "nine"
    do(digits_client, "merge", kinds=["new-2", "new-1"], into=preview["into"])
    merged = kinds(digits_client)
    assert "new-2" not in merged
    assert (merged["new-1"]["name"], merged["new-1"]["size"]) == ("nine", preview["size"])
    known = digits_client.post("/api/preview/merge", json={"kinds": ["new-3", "0"]}).json()
    assert known["into"] == "0"


def test_samples_of_a_kind_are_listed_page_by_page(digits_client):
    size = kinds(digits_client)["new-1"]["size"]
    seen = []
    for first in range(0, size, 60):
        page = digits_client.get(f"/api/kinds/samples?kind=new-1&order=doubtful&first={first}").json()
        assert page["total"] == size
        seen += page["rows"]
    assert len(set(seen)) == size
    _, arrays = points(digits_client)
    assert np.all(np.diff(arrays["confidence"][seen].astype(int)) >= -1)
    typical = digits_client.get("/api/kinds/samples?kind=new-1&order=typical").json()["rows"]
    assert typical[:3] == kinds(digits_client)["new-1"]["typical"][:3]
    for wrong in ("order=x", "first=x", "first=-1"):
        assert digits_client.get(f"/api/kinds/samples?kind=new-1&{wrong}").status_code == 400


def test_texts_are_searched_and_shown_in_full(texts_client):
    found = texts_client.get("/api/search?words=pin 38").json()
    assert [sample["text"] for sample in found["samples"]] == [
        f"change my PIN, number {number}" for number in (38, 138, 238)
    ]
    assert texts_client.get("/api/search?words=").json()["total"] == 0
    assert texts_client.get("/api/search", params={"words": "(.*"}).json()["total"] == 0
    assert texts_client.get("/api/search", params={"words": "x" * 300}).status_code == 400
    row = found["rows"][0]
    details = texts_client.get(f"/api/samples/{row}").json()
    assert details["text"] == "change my PIN, number 38"
    assert texts_client.get("/api/samples?rows=1,2").json()[1]["row"] == 2
    for wrong in ("/api/samples?rows=a", "/api/samples?rows=240", f"/api/samples?rows={'1,' * 501}"):
        assert texts_client.get(wrong).status_code == 400


def test_more_like_this_finds_the_same_kind(texts_client):
    member = kinds(texts_client)["new-1"]["typical"][0]
    like = texts_client.post("/api/like", json={"rows": [member]}).json()
    assert member not in like["rows"]
    assert like["total"] == 239
    assert like["similarity"] == sorted(like["similarity"], reverse=True)
    _, arrays = points(texts_client)
    assert set(arrays["slot"][like["rows"][:20]].tolist()) == {int(arrays["slot"][member])}


def reviewed(client):
    """The questions, once they were looked for."""
    until(lambda: not client.get("/api/review").json()["looking"], "for questions")
    return client.get("/api/review").json()


def test_the_review_asks_what_is_worth_it_and_not_twice(digits_client):
    first = reviewed(digits_client)
    assert first["answered"] == 0
    assert 5 <= first["left"] <= 50
    one, two, three, *_ = first["questions"]
    assert one["slot"] not in one["options"]
    answer = digits_client.post("/api/review/answer", json={"question": one["id"], "answer": "yes"}).json()
    assert changed(answer)["row"].tolist() == sorted([*one["rows"], *one["typical"]])
    key = next(k for k, card in kinds(digits_client).items() if card["slot"] == two["options"][0])
    asked_for = {"question": two["id"], "answer": "kind", "kind": key, "odd": []}
    moved = changed(digits_client.post("/api/review/answer", json=asked_for).json())
    assert moved["row"].tolist() == two["rows"]
    assert moved["slot"].tolist() == [two["options"][0]]
    assert digits_client.post("/api/review/skip", json={"question": three["id"]}).status_code == 200
    second = reviewed(digits_client)
    assert (second["answered"], second["left"]) == (2, first["left"] - 3)
    assert not {one["id"], two["id"], three["id"]} & {question["id"] for question in second["questions"]}
    do(digits_client, "undo")
    assert reviewed(digits_client)["questions"][0]["id"] == two["id"]


def test_a_shown_sample_that_is_odd_is_not_confirmed(digits_client):
    question = reviewed(digits_client)["questions"][0]
    odd = question["typical"][:1]
    asked_for = {"question": question["id"], "answer": "yes", "odd": odd}
    rows = changed(digits_client.post("/api/review/answer", json=asked_for).json())["row"].tolist()
    assert odd[0] not in rows
    assert question["rows"][0] in rows


@pytest.mark.parametrize(
    "content",
    [
        {"question": 0, "answer": "maybe"},
        {"question": 0},
        {"question": 10**6, "answer": "yes"},
        {"question": 0, "answer": "kind", "kind": "new-99"},
        {"question": 0, "answer": "yes", "odd": ["x"]},
    ],
)
def test_an_answer_that_cannot_be_used_changes_nothing(content, digits_client):
    reviewed(digits_client)
    assert digits_client.post("/api/review/answer", json=content).status_code in (400, 409)
    assert digits_client.get("/api/state").json()["n"] == 0


def test_samples_that_came_show_in_the_studio_and_questions_about_others_are_gone(photos_run, tmp_path):
    run = copied(photos_run, tmp_path)
    with asked(run) as client:
        before = client.get("/api/state").json()
        pictures = [client.get(f"/picture/{row}").content for row in range(90)]
        assert client.get("/picture/90").status_code == 400
        question = reviewed(client)["questions"][0]
        arrive(run, let_go=2)
        stale = client.post("/api/do/confirm", json={"rows": [0]})
        assert stale.status_code == 409
        assert "samples have come or gone" in stale.json()["error"].lower()
        state, n = client.get("/api/state").json(), 90 - 2 + N_NEW
        assert (state["n"], state["n_samples"], state["samples"], state["map"]) == (1, n, "0002", None)
        assert [card["key"] for card in state["categories"]] == ["pug", "beagle", "new-1", "new-2"]
        assert len(points(client)[1]["slot"]) == n
        assert client.get("/picture/0").content == pictures[2]
        assert client.get(f"/picture/{n - 1}").status_code == 200
        assert client.get(f"/picture/{n}").status_code == 400
        assert client.get(f"/api/samples/{n - 1}").json()["id"] == f"late-{N_NEW - 1}"
        assert client.get("/api/search?words=late").json()["matches"] == N_NEW
        members = client.get("/api/kinds/samples?kind=new-2&order=typical").json()
        assert members["samples"][0]["id"].startswith("late-")
        like = client.post("/api/like", json={"rows": [n - 1]}).json()
        assert {sample["id"] for sample in like["samples"][: N_NEW - 1]} == {f"late-{i}" for i in range(N_NEW - 1)}
        answer = {"question": question["id"], "answer": "yes"}
        assert client.post("/api/review/answer", json=answer).status_code == 409
        assert reviewed(client)["questions"]
        do(client, "confirm", rows=[n - 1])
        assert read_predictions(run)["confirmed"].to_pylist().index(True) == n - 1
        assert do(client, "undo", entry=2)["samples"]["n"] == 1
        assert do(client, "undo", entry=1)["all"]
        after = client.get("/api/state").json()
        assert (after["n_samples"], after["samples"], after["map"]) == (90, None, before["map"])
        assert [client.get(f"/picture/{row}").content for row in range(90)] == pictures
        assert do(client, "redo")["all"]
        assert client.get("/api/state").json()["n_samples"] == n


def test_exports_are_as_things_stand_and_run_no_formulas(hostile_run, tmp_path):
    run = copied(hostile_run, tmp_path)
    with asked(run) as client:
        do(client, "rename", kind="new-1", name="=cmd()")
        answer = client.get("/api/export/csv")
        assert answer.headers["content-disposition"] == 'attachment; filename="hostile.csv"'
        table = pa_csv.read_csv(io.BytesIO(answer.content))
        names = set(table["name"].to_pylist())
        assert "'=cmd()" in names
        assert "=cmd()" not in names
        assert client.get("/api/export/jsonl").status_code == 200
        assert client.get("/api/export/parquet").content.startswith(b"PAR1")
        assert client.get("/api/export/exe").status_code == 404


def test_hostile_names_stay_data(hostile_run):
    with asked(hostile_run) as client:
        answer = client.get("/api/state")
        assert answer.headers["content-type"] == "application/json"
        assert "</script>" in answer.json()["title"]
        assert "</script><script>" not in client.get("/").text


def test_a_fault_is_no_secret_to_the_terminal_but_to_the_page(digits_client, monkeypatch, caplog):
    monkeypatch.setattr("newkinds.studio.samples.nearest_rows", lambda *_: 1 / 0)
    answer = digits_client.post("/api/like", json={"rows": [1]})
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_typical_samples_of_a_known_kind_carry_its_label(digits_run):
    live = LiveRun(digits_run)
    given = live.edited.samples.given
    cards = {card["key"]: card for card in live.state()["categories"]}
    assert given[cards["0"]["typical"]].all()
    assert not given[cards["new-1"]["typical"]].any()
