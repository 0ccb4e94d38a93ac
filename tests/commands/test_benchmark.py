"""`newkinds benchmark`."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from newkinds import FeatureSet, write_features
from newkinds.cli import app


@pytest.fixture
def source(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 20)
    features = np.eye(4)[truth] + 0.2 * generator.normal(size=(80, 4))
    labels = np.where((truth < 2) & (np.arange(80) % 2 == 0), truth, -1)
    write_features(FeatureSet(features, labels, truth), tmp_path / "four.npz")
    return tmp_path / "four.npz"


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["benchmark", *map(str, arguments)])
    return result.exit_code, " ".join(result.output.split())


def test_a_table_is_made_and_named(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = run("main", "--features", source, "--seeds", 2, "--methods", "kmeans, rim", "--out", out)
    assert code == 0
    assert "2/4" in said
    assert "four: kmeans" in said
    assert f"Read {out / 'main.md'}".replace(" ", "") in said.replace(" ", "")
    text = (out / "main.md").read_text("utf-8")
    assert "k-means" in text
    assert "RIM" in text
    assert "TIM" not in text


def test_repeated_it_says_nothing_is_left_to_compute(source: Path, tmp_path: Path) -> None:
    arguments = ("init", "--features", source, "--seeds", 1, "--out", tmp_path / "out")
    first = run(*arguments)
    again = run(*arguments)
    assert first[0] == again[0] == 0
    assert "four: starts" in first[1]
    assert "four" not in again[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("main",), "--features"),
        (("tables", "--features", "x"), "tables"),
        (("main", "--features", "nowhere"), "nowhere"),
        (("main", "--features", "{source}", "--methods", "nothing"), "there is no method 'nothing'"),
        (("main", "--features", "{source}", "--seeds", "0"), "--seeds"),
    ],
)
def test_errors_are_said_without_a_traceback(
    arguments: tuple[str, ...], message: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = run(*(each.format(source=source) for each in arguments))
    assert code == 2
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "newkinds-benchmark").exists()
