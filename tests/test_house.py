"""The rules of the house: layers, light imports, examples that run, a wheel that installs."""

import ast
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import newkinds
from newkinds import cli
from newkinds.engine import SOLVERS
from newkinds.methods import METHODS
from newkinds.methods.n_categories import RULES
from newkinds.methods.recipes import RECIPES
from newkinds.names import PREDICTION_FORMATS
from newkinds.run_folder import read_run

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "newkinds"

LEVELS = {
    "errors": 0,
    "labels": 0,
    "names": 0,
    "objective": 0,
    "metrics": 0,
    "runtime": 0,
    "workers": 0,
    "engine": 1,
    "data": 1,
    "methods": 2,
    "run_folder": 1,
    "encoders": 3,
    "predictions": 3,
    "runs": 3,
    "report": 4,
    "benchmark": 4,
    "terminal": 4,
    "options": 4,
    "cli": 5,
    "__main__": 6,
}
STRANGERS = {("methods", "data"), ("data", "methods"), ("engine", "data"), ("data", "engine")}


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
    code = "import sys, newkinds.cli, newkinds.terminal, newkinds.run_folder; print('torch' in sys.modules)"
    assert run_python(code) == "False"


def test_optional_packages_are_never_imported_by_the_methods() -> None:
    optional = ["transformers", "onnxruntime", "sentence_transformers", "umap", "fastapi", "PIL", "matplotlib"]
    code = f"import sys, newkinds.cli, newkinds.runs; print([m for m in {optional} if m in sys.modules])"
    assert run_python(code) == "[]"


def test_every_public_name_is_there() -> None:
    for name in newkinds.__all__:
        assert getattr(newkinds, name) is not None
    assert set(newkinds.__all__) == set(newkinds._HOME)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = newkinds.nothing


def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every console command and every Python block of the README, in the order they stand there."""
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    text = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"```(python|console)\n(.*?)```", text, flags=re.DOTALL)
    assert {language for language, _ in blocks} == {"python", "console"}
    for language, block in blocks:
        if language == "python":
            subprocess.run([sys.executable, "-c", block], check=True, env=environment)
            continue
        for line in block.splitlines():
            if not line.startswith("$ ") or line.startswith(("$ make", "$ pip", "$ git")):
                continue
            subprocess.run(["bash", "-o", "pipefail", "-c", line[2:]], check=True, env=environment)
    assert read_run("newkinds-demo")["score"]["all"] >= 0.85
    assert read_run("wine-run")["score"]["all"] >= 0.9


def test_the_command_line_offers_what_there_is() -> None:
    assert {member.value for member in cli.Method} == set(METHODS)
    assert {member.value for member in cli.RecipeName} == set(RECIPES)
    assert {member.value for member in cli.SearchRule} == set(RULES) - {"silhouette"}
    assert {member.value for member in cli.OutputFormat} == set(PREDICTION_FORMATS)
    assert {member.value for member in cli.SolverOption} == set(SOLVERS)


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", wheels, ROOT], check=True, capture_output=True
    )
    (wheel,) = wheels.glob("newkinds-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, capture_output=True)
    code = "import newkinds; print(newkinds.__version__, newkinds.PIM(3), newkinds.__file__)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(f"{newkinds.__version__} PIM(n_categories=3)")
    assert str(ROOT) not in done.stdout
    assert (Path(done.stdout.split()[-1]).parent / "py.typed").exists()
