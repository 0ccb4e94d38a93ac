"""The commands in docs/benchmark.md that repeat the paper's published row on the released features."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from newkinds.benchmark.published import DATASETS, ESTIMATED_K, MAIN, PARTITION_ESTIMATED_K, dataset_of
from newkinds.metrics import correct
from newkinds.run_folder import read_predictions
from tests.commands.command_line import succeed

DOCUMENT = (Path(__file__).parents[2] / "docs" / "benchmark.md").read_text("utf-8")
COMMANDS = re.findall(r"^newkinds (discover released/.*)$", DOCUMENT, re.MULTILINE)
RELEASED_LAMS = {
    "CUB": 0.1,
    "Stanford Cars": 0.2,
    "Herbarium19": 1.0,
    "CIFAR10": 1.0,
    "CIFAR100": 0.1,
    "ImageNet-100": 0.1,
}
WIDTH = 12


def option(command: str, name: str) -> str:
    words = shlex.split(command)
    return words[words.index(name) + 1]


def name_of(command: str) -> str:
    return Path(shlex.split(command)[1]).name


def write_release(folder: Path, n_categories: int) -> None:
    """A few samples of every class in the layout of the release, and start prototypes."""
    rng = np.random.default_rng(n_categories)
    centres = rng.normal(size=(n_categories, WIDTH))
    targets = np.repeat(np.arange(n_categories), max(2, 400 // n_categories))
    features = centres[targets] + 0.8 * rng.normal(size=(len(targets), WIDTH))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    is_known = targets < n_categories // 2
    folder.mkdir(parents=True)
    np.save(folder / "all_feats.npy", features.astype(np.float32))
    np.save(folder / "targets.npy", targets)
    np.save(folder / "mask_cls.npy", is_known)
    np.save(folder / "mask_lab.npy", is_known & (np.arange(len(targets)) % 2 == 0))
    start = centres / np.linalg.norm(centres, axis=1, keepdims=True)
    np.save(folder / "protos.npy", start.astype(np.float32))


def trained_as_released(folder: Path, lam: float) -> np.ndarray:
    """1000 epochs of Adam on the paper's loss from the prototypes, written out plainly."""
    features = torch.from_numpy(np.load(folder / "all_feats.npy"))
    labelled = torch.from_numpy(np.load(folder / "mask_lab.npy"))
    targets = torch.from_numpy(np.load(folder / "targets.npy"))
    weights = torch.from_numpy(np.load(folder / "protos.npy")).clone().requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=1e-3, weight_decay=0.01)
    for _ in range(1000):
        log_p = torch.log_softmax(25 * features @ weights.T, dim=1)
        p = log_p.exp()
        marginal = p.mean(0)
        loss = (marginal * marginal.log()).sum() - log_p[labelled, targets[labelled]].mean()
        loss = loss - lam * (p[~labelled] * log_p[~labelled]).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return (features @ weights.T).argmax(1).numpy()


def test_there_is_a_command_for_each_of_the_six_sets() -> None:
    settings = {}
    for command in COMMANDS:
        n_categories = int(option(command, "--n-categories"))
        data = dataset_of(name_of(command), n_categories)
        assert data is not None, command
        assert n_categories == DATASETS[data].n_categories
        settings[data] = float(option(command, "--lam"))
    assert settings == RELEASED_LAMS


def test_the_figures_beside_them_are_the_published_ones() -> None:
    for data in DATASETS:
        (line,) = re.findall(rf"^\| {data} \|(.*)\|$", DOCUMENT, re.MULTILINE)
        at_truth, k, at_estimate = (cell.strip() for cell in line.split("|"))
        assert at_truth == " / ".join(map(str, MAIN["PIM"][data]))
        assert int(k) == ESTIMATED_K["Max-ACC (PIM)"][data]
        assert at_estimate == " / ".join(map(str, PARTITION_ESTIMATED_K["PIM"][data]))


@pytest.mark.parametrize("command", COMMANDS, ids=name_of)
def test_a_command_is_the_run_of_the_release(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    n_categories, lam = int(option(command, "--n-categories")), float(option(command, "--lam"))
    folder = tmp_path / "released" / name_of(command)
    write_release(folder, n_categories)
    (tmp_path / "runs").mkdir()
    succeed(*shlex.split(command), "--quiet", "--device", "cpu")
    out = Path(option(command, "--out"))
    settings = json.loads((out / "run.json").read_text())["parameters"]
    assert (settings["recipe"], settings["lam"], settings["n_categories"]) == ("release", lam, n_categories)
    found = np.array(read_predictions(out)["category"])
    features, start = (np.load(folder / name) for name in ("all_feats.npy", "protos.npy"))
    expected = trained_as_released(folder, lam)
    assert ((features @ start.T).argmax(1) != expected).mean() > 0.02  # the training matters
    is_known = expected < n_categories // 2
    assert (found[is_known] == expected[is_known]).mean() > 0.995
    assert correct(expected, found).mean() > 0.995  # new categories may have other numbers
