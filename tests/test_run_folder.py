"""Reading run folders: records, models and tables that were changed or damaged are refused by their names."""

import json
import logging
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import newkinds
from newkinds import PIM, UNO, FeatureSet, InputError, load
from newkinds.discovery import Discovery, discover
from newkinds.methods.base import CALIBRATION_ARRAY
from newkinds.report import write_report
from newkinds.run_folder import read_run, verify_run, write_run
from newkinds.runs import save_run
from tests.commands.command_line import LABELS, X, record_of
from tests.run_targets import make

OLD_RUN = Path(__file__).parent / "old_runs" / "pim"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder of the test's own; its record has everything that a record can have."""
    folder = tmp_path / "run"
    folder.mkdir()
    make(folder)
    return folder


def changed(run: Path, **changes: Any) -> dict[str, Any]:
    """The record with other values at some places: source__samples is `samples` in `source`."""
    record = record_of(run)
    for way, value in changes.items():
        *above, key = way.split("__")
        parent: Any = record
        for name in above:
            parent = parent[int(name) if name.isdigit() else name]
        parent[int(key) if key.isdigit() else key] = value
    return record


def refused(action: Callable[[Path], object], run: Path, text: str) -> None:
    with pytest.raises(InputError, match=re.escape(str(run)) + ".*" + text):
        action(run)


@pytest.mark.parametrize(
    ("way", "value", "says"),
    [
        ("created", 5, "created should be a text; got 5"),
        ("source", [], "source should be an object; got a list"),
        ("source__name", None, r"source\.name should be a text"),
        ("source__samples", -1, r"source\.samples should be a whole number of at least 0; got -1"),
        ("source__samples", 60.0, r"source\.samples should be a whole number"),
        ("source__samples", True, r"source\.samples should be a whole number .* got True"),
        ("source__samples", 61, r"the sizes of categories should add up to source\.samples"),
        ("source__labelled", 3, r"the labelled samples of categories should add up to source\.labelled"),
        ("source__columns", "x", r"source\.columns should be a list; got 'x'"),
        ("source__columns", ["x", 3], r"source\.columns\[1\] should be a text; got 3"),
        ("source__columns", ["x", "y"], r"source\.columns should be as many as source\.features"),
        ("source__features", 0, r"source\.features should be a whole number of at least 1"),
        ("method", "magic", "the method 'magic', which this version does not have"),
        ("method", ["pim"], "method should be a text; got a list"),
        ("parameters", None, "parameters should be an object; got None"),
        ("chosen__lam", "0.1", r"chosen\.lam should be a number of at least 0; got '0\.1'"),
        ("chosen__lam", None, r"curves\.lam and curves\.rehearsal should go with chosen\.lam"),
        ("chosen__temperature", 0, r"chosen\.temperature should be a number greater than 0; got 0"),
        ("chosen__temperature", 1e300, r"chosen\.temperature should be"),
        ("chosen__n_categories", 4, r"chosen\.n_categories should be the number of categories"),
        ("chosen__n_categories_rule", None, r"should go with chosen\.n_categories_rule"),
        ("chosen__n_categories_bounds", None, r"should go with chosen\.n_categories_rule"),
        ("chosen__n_categories_bounds", [3, 2], r"chosen\.n_categories_bounds should ascend"),
        ("chosen__n_categories_interval", [4, 2], r"chosen\.n_categories_interval should ascend"),
        ("chosen__n_categories_interval", [2, 3, 4], r"n_categories_interval should have 2 items; got 3"),
        ("chosen__calibration", 1, r"chosen\.calibration should be an object"),
        ("curves__lam", [[0.1]], r"curves\.lam\[0\] should have 2 items; got 1"),
        ("curves__lam", {"0.1": 1}, r"curves\.lam should be a list; got an object"),
        ("curves__n_categories", [[2, None]], r"curves\.n_categories\[0\]\[1\] should be a finite number"),
        ("curves__rehearsal", [[1, 2, 3]], r"curves\.rehearsal\[0\] should have 4 items; got 3"),
        ("categories", {}, "categories should be a list; got an object"),
        ("categories__0", 1, r"categories\[0\] should be an object; got 1"),
        ("categories__0__id", 2, "the ids of categories should ascend"),
        ("categories__1__id", -4, r"categories\[1\]\.id should be a whole number of at least 0"),
        ("categories__1__name", 7, r"categories\[1\]\.name should be a text; got 7"),
        ("categories__1__kind", "old", r"categories\[1\]\.kind should be 'known' or 'new'; got 'old'"),
        ("categories__0__kind", "new", "known categories should come before new ones"),
        ("categories__2__labelled", 1, "labelled"),
        ("score", 1, "score should be an object; got 1"),
        ("score__all", 1.5, r"score\.all should be a number from 0 to 1; got 1\.5"),
        ("stopped", None, "stopped should be a text"),
        ("n_iter", "3", "n_iter should be a whole number of at least 0; got '3'"),
        ("warnings", "all is well", "warnings should be a list"),
        ("warnings", [1], r"warnings\[0\] should be a text; got 1"),
        ("seconds", {"fit": "long"}, r"seconds\.'fit' should be a number of at least 0; got 'long'"),
        ("seconds", {"\x1b[2J": -1}, r"seconds\.'\\x1b\[2J' should be a number of at least 0; got -1"),
        ("versions", {}, "versions lacks newkinds"),
        ("encoder", "vit", "encoder should be an object; got 'vit'"),
        ("encoder", {"name": "vit", "kind": "images"}, "encoder lacks fingerprint"),
        ("encoder__fingerprint", 7, r"encoder\.fingerprint should be a text; got 7"),
        ("features__sha256", "abc", r"features\.sha256 should be a SHA-256"),
    ],
)
def test_the_key_of_a_record_that_is_wrong_is_named(run: Path, way: str, value: Any, says: str) -> None:
    write_run(run, changed(run, **{way: value}))  # with the right checksum: the checks themselves are tested
    refused(read_run, run, rf"run\.json.*{says}")


@pytest.mark.parametrize("key", ["source", "method", "parameters", "chosen", "curves", "categories", "warnings"])
def test_a_key_that_is_missing_is_named(run: Path, key: str) -> None:
    record = record_of(run)
    del record[key]
    write_run(run, record)
    refused(read_run, run, rf"run\.json is damaged: it lacks {key}")


def test_keys_that_later_versions_add_are_not_looked_at(run: Path) -> None:
    write_run(run, changed(run, neighbour={"anything": [1, None]}, source__place="shelf"))
    assert read_run(run)["neighbour"] == {"anything": [1, None]}
    assert load(run).n_categories_ == 3


def test_keys_that_older_versions_lack_are_not_needed(run: Path) -> None:
    record = record_of(run)
    for parts, keys in (
        (record, ("checksums", "encoder", "skipped", "preprocessing", "features")),
        (record["source"], ("columns", "features")),
        (record["chosen"], ("n_categories_interval", "size_ratio", "rehearsal_spread", "calibration")),
        (record["curves"], ("rehearsal",)),
    ):
        for key in keys:
            del parts[key]
    (run / "run.json").write_text(json.dumps(record))
    assert load(run).n_categories_ == 3
    assert write_report(run).exists()


def test_an_edit_that_no_check_can_see_is_noticed_by_the_checksum(run: Path) -> None:
    record = changed(run, categories__0__name="wren", categories__1__name="owl")
    (run / "run.json").write_text(json.dumps(record))
    refused(load, run, r"run\.json is not as newkinds wrote it: it was changed or damaged")
    record = changed(run, categories__0__name="owl", categories__1__name="wren")
    (run / "run.json").write_text(json.dumps(record, indent=4, sort_keys=True))  # laid out in another way only
    assert load(run).category_names_ == {0: "owl", 1: "wren", 2: "new-1"}


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text.replace('"n_iter": ', '"n_iter": NaN, "x": '), "NaN is not JSON|n_iter should be"),
        (lambda text: text.replace('"skipped": ', '"later": [-Infinity], "skipped": '), "-Infinity is not JSON"),
        (lambda text: text.replace('"n_iter": ', '"n_iter": 1e999, "x": '), "the number 1e999 is too large"),
        (lambda text: text.replace('"n_iter": ', f'"n_iter": {2**63}, "x": '), "the number .* is too large"),
        (lambda text: text.replace('"n_iter": ', f'"n_iter": {"9" * 5000}, "x": '), "the number 9+ is too large"),
        (lambda text: text.replace('"n_iter": ', '"n_iter": 3, "n_iter": '), "the key 'n_iter' is there twice"),
        (lambda text: text.replace('"n_iter": ', f'"n_iter": {"[" * 10**5}, "x": '), "nested too deeply"),
        (lambda text: text.replace('"new-1"', '"\\ud800"'), "surrogates not allowed"),
        (lambda text: text.encode().replace(b"new-1", b"new-\xff"), "'utf-8' codec can't decode"),
        (lambda text: b"\xef\xbb\xbf" + text.encode(), "BOM"),
        (lambda text: text + "x", "Extra data"),
    ],
)
def test_only_strict_json_is_read(run: Path, damage: Callable[[str], str | bytes], says: str) -> None:
    path = run / "run.json"
    content = damage(path.read_text("utf-8"))
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(read_run, run, f"run.json is damaged: .*({says})")


def test_runs_of_older_versions_may_hold_nan_where_null_belongs(run: Path) -> None:
    text = (run / "run.json").read_text("utf-8")
    text = re.sub(r'"checksums": .*\n', '"later": 1\n', text)
    (run / "run.json").write_text(re.sub(r'"rehearsal_spread": [^,]*', '"rehearsal_spread": NaN', text))
    assert read_run(run)["chosen"]["rehearsal_spread"] is None
    (run / "run.json").write_text(re.sub(r'"temperature": [^,]*', '"temperature": NaN', text))
    refused(read_run, run, r"run\.json is damaged: chosen\.temperature should be a number greater than 0; got None")


@contextmanager
def no_waiting() -> Iterator[None]:
    """Fail a test that waits, as it would for what someone writes into a FIFO."""

    def stop(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["run.json", "model.safetensors", "predictions.parquet", "features.npy"])
@pytest.mark.parametrize("kind", ["folder", "FIFO", "missing"])
def test_only_plain_files_are_opened(run: Path, name: str, kind: str) -> None:
    path = run / name
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    uses: dict[str, Callable[[Path], object]] = {
        "model.safetensors": load,
        "predictions.parquet": write_report,
        "run.json": read_run,
    }
    with no_waiting():
        refused(uses.get(name, verify_run), run, f"{name}.*" if name != "run.json" else r"has no run\.json")


def test_a_gigantic_record_is_not_read(run: Path) -> None:
    with (run / "run.json").open("r+b") as file:
        file.truncate((1 << 28) + 1)  # a hole: it takes no space
    refused(read_run, run, r"run\.json is damaged: it is larger than 256 MiB")


@pytest.mark.parametrize(
    ("name", "use"),
    [("model.safetensors", load), ("predictions.parquet", write_report), ("features.npy", verify_run)],
)
def test_a_file_that_was_changed_is_refused(run: Path, name: str, use: Callable[[Path], object]) -> None:
    assert verify_run(run) == ["model.safetensors", "features.npy", "predictions.parquet", "map.npy", "run.json"]
    content = bytearray((run / name).read_bytes())
    content[-9] ^= 1
    (run / name).write_bytes(content)
    for action in (use, verify_run):
        refused(action, run, rf"{name} is not the file that run\.json describes: it was changed or damaged")


def test_a_run_without_checksums_is_loaded_and_that_is_logged(
    tmp_path: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = shutil.copytree(OLD_RUN, tmp_path / "old")
    with caplog.at_level(logging.INFO, logger="newkinds"):
        newkinds.load(run)
        assert not caplog.records
        newkinds.load(old)
    (entry,) = caplog.records
    assert (entry.levelname, entry.getMessage()) == (
        "INFO",
        f"{old} was made before runs had checksums: damage may go unnoticed",
    )
    assert verify_run(old) == ["features.npy"]
    (old / "features.npy").write_bytes(b"other")
    refused(verify_run, old, r"features\.npy is not the file that run\.json describes")


def edit_model(run: Path, **arrays: Any) -> None:
    """Other arrays in the model; its checksum is made anew, so that nothing but the arrays can be refused."""
    saved = load_file(run / "model.safetensors")
    new = {**saved, **{name: edit(saved[name]) for name, edit in arrays.items()}}
    kept = {name: np.ascontiguousarray(array) for name, array in new.items() if array is not None}
    save_file(kept, run / "model.safetensors")
    write_run(run, record_of(run))


def with_value(value: float) -> Callable[[Any], Any]:
    def edit(array: Any) -> Any:
        array = array.copy()
        array.flat[0] = value
        return array

    return edit


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"weights": lambda w: w[:1]}, "the saved model has 1 weights for 3 categories"),
        ({"weights": lambda w: w[:, :-1]}, "does not fit run.json: their numbers of features differ"),
        ({"weights": with_value(np.nan)}, "the saved weights should be finite"),
        ({"weights": with_value(-np.inf)}, "the saved weights should be finite"),
        ({"weights": lambda w: 1e200 * w.astype(np.float64)}, "the saved weights and temperature are too large"),
        ({"weights": lambda w: w.reshape(-1)}, "the saved weights should be n × n numbers; got float32"),
        ({"weights": lambda w: w.astype(np.int64)}, "the saved weights should be n × n numbers; got int64"),
        ({"weights": lambda w: None}, "the saved model lacks weights"),
        ({"temperature": lambda t: -t}, "the saved temperature should be greater than 0; got -"),
        ({"temperature": lambda t: t * np.nan}, "the saved temperature should be finite"),
        ({"temperature": lambda t: np.ones(2)}, "the saved temperature should be 1 numbers"),
        ({"temperature": lambda t: 2 * t}, "does not fit run.json: their temperatures differ"),
        ({"categories": lambda c: c[::-1]}, "the saved categories should ascend"),
        ({"categories": lambda c: c + 1}, "the saved known categories should be the first of all"),
        ({"categories": lambda c: c - 1}, "the saved categories should not be negative"),
        (
            {"categories": lambda c: c.astype(float)},
            "the saved categories should be a row of integers; got float64",
        ),
        ({"categories": lambda c: c[None]}, "the saved categories should be a row of integers"),
        ({"known_categories": lambda k: k[1:]}, "the saved known categories should be the first of all"),
        ({"known_categories": lambda k: k[:1]}, "does not fit run.json: their known categories differ"),
        ({"labels": with_value(9)}, "the saved labels should be among the categories"),
        ({"labels": lambda labels: labels[1:]}, "does not fit run.json: their numbers of samples differ"),
        ({"labels": lambda labels: labels * 0}, "does not fit run.json: their sizes of categories differ"),
        ({"calibration": with_value(np.nan)}, "the saved calibration should be finite"),
        ({"calibration": with_value(-1.0)}, "the saved calibration makes no sense"),
        ({"calibration": lambda c: c[:3]}, "the saved calibration should be 3 numbers"),
        ({"calibration": lambda c: c / 2}, "does not fit run.json: their calibrations differ"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(run: Path, arrays: dict[str, Any], says: str) -> None:
    edit_model(run, **arrays)
    refused(load, run, rf"model\.safetensors (is damaged|does not fit).*{says.removeprefix('does not fit ')}")


def test_a_share_of_new_samples_may_be_unknown(run: Path) -> None:
    def without_share(calibration: Any) -> Any:
        calibration = calibration.copy()
        calibration[-1] = np.nan
        return calibration

    edit_model(run, calibration=without_share)
    write_run(run, changed(run, chosen__calibration__share_new=None))
    assert np.isnan(load(run).calibration_.share_new)


def test_models_of_before_calibration_have_none(run: Path) -> None:
    edit_model(run, **{CALIBRATION_ARRAY: lambda _: None})
    record = record_of(run)
    del record["chosen"]["calibration"]
    write_run(run, record)
    assert load(run).calibration_.sharpness == 1.0


@pytest.mark.parametrize("has_checksums", [True, False])
def test_the_model_of_another_run_is_refused(run: Path, tmp_path: Path, has_checksums: bool) -> None:
    other = discover(FeatureSet(X, LABELS), method=PIM(3, lam=0.3, max_iter=2, random_state=0))
    (tmp_path / "other").mkdir()
    save_run(other, tmp_path / "other", "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", run)
    if not has_checksums:
        record = record_of(run)
        del record["checksums"]
        (run / "run.json").write_text(json.dumps(record))
    refused(load, run, r"model\.safetensors (is not the file that run\.json describes|does not fit run\.json)")


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"magic": 1}, "unexpected keyword argument 'magic'"),
        ({"n_categories": 0}, "'n_categories' parameter"),
        ({"lam": "always"}, "'lam' parameter"),
        ({"tol": None}, "'tol' parameter"),
    ],
)
def test_parameters_that_the_method_does_not_take_are_refused(
    run: Path, parameters: dict[str, Any], says: str
) -> None:
    write_run(run, changed(run, parameters=parameters))
    refused(load, run, rf"run\.json is damaged: parameters: .*{says}")


@pytest.fixture(scope="module")
def projecting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uno")
    model = UNO(3, hidden=8, max_iter=1, batch_size=30, random_state=0)
    save_run(discover(FeatureSet(X, LABELS), method=model), folder, "birds")
    return folder


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"hidden_weights": lambda a: None}, "lacks a part of its projection"),
        ({"hidden_weights": lambda a: a[:-1]}, "the saved hidden_weights should be 8 × n numbers"),
        ({"hidden_weights": lambda a: a[:, 1:]}, "their numbers of features differ"),
        ({"output_weights": lambda a: a[:, 1:]}, "the saved output_weights should be"),
        ({"output_weights": lambda a: a[1:]}, "the saved output_weights should be"),
        ({"output_bias": with_value(np.nan)}, "the saved output_bias should be finite"),
        ({"hidden_bias": lambda a: a[:, None]}, "the saved hidden_bias should be 8 numbers"),
        ({"weights": lambda a: a[:, 1:]}, "the saved output_weights should be"),
    ],
)
def test_a_projection_that_does_not_fit_is_refused(
    projecting: Path, tmp_path: Path, arrays: dict[str, Any], says: str
) -> None:
    run = shutil.copytree(projecting, tmp_path / "run")
    assert load(run).n_features_in_ == X.shape[1]
    edit_model(run, **arrays)
    refused(load, run, rf"model\.safetensors.*{says}")


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (("owl", "wren"), "new-1"),
        (("owl", "new-1"), "discovered-1"),
        (("discovered-1", "new-1"), "discovered2-1"),
        (("discovered-1", "wren"), "new-1"),
        (("discovered-7", "new-ish"), "discovered2-1"),
    ],
)
def test_no_discovered_category_has_the_name_of_a_known_one(known: tuple[str, str], new: str) -> None:
    collection = FeatureSet(X, LABELS, names=known)
    names = discover(collection, method=PIM(4, lam=0.3, max_iter=2, random_state=0)).names
    assert [names[0], names[1], names[2]] == [*known, new]
    assert len(set(names.values())) == 4


def test_what_json_cannot_hold_is_left_out_of_the_record(tmp_path: Path) -> None:
    model = PIM(3, lam=0.3, max_iter=4, random_state=0)
    discovery = discover(FeatureSet(X, LABELS), method=model)
    model.objective_curve_ = np.array([3.0, np.nan, 1.0], dtype=np.float32)
    save_run(Discovery(discovery.collection, model, {}), tmp_path, "odd \udcff name")

    def no_constant(name: str) -> None:
        raise AssertionError(name)

    record = json.loads((tmp_path / "run.json").read_text("utf-8"), parse_constant=no_constant)
    assert record["curves"]["objective"] == [[1, 3.0], [3, 1.0]]
    assert record["source"]["name"] == "odd \\udcff name"
    assert load(tmp_path).n_categories_ == 3
    assert write_report(tmp_path).exists()


def test_what_could_not_be_read_again_is_refused_when_it_is_saved(tmp_path: Path) -> None:
    collection = FeatureSet(X, LABELS, encoder={"name": "mine"})
    discovery = discover(collection, method=PIM(3, lam=0.3, max_iter=2, random_state=0))
    with pytest.raises(InputError, match="encoder lacks kind, fingerprint"):
        save_run(discovery, tmp_path, "birds")


def test_a_start_that_is_too_large_to_be_written_down_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = np.eye(X.shape[1])[:3]
    discovery = discover(FeatureSet(X, LABELS), method=PIM(init=start, lam=0.3, max_iter=2))
    for largest, expected in ((start.size - 1, PIM().init), (start.size, start)):
        monkeypatch.setattr("newkinds.runs.LARGEST_PARAMETER", largest)
        folder = tmp_path / str(largest)
        folder.mkdir()
        save_run(discovery, folder, "birds")
        assert np.array_equal(load(folder).init, expected)
