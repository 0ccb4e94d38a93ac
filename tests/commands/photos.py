"""Photos and encoders that tests make."""

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image

from newkinds.sorting import LIST_FILE
from tests.commands.command_line import change_column, record_of, write_record


def save_photo(path: Path, colour: tuple[int, int, int], seed: int, side: int = 40) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(-40, 40, size=(side, side + 8, 3))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)


def save_model(folder: Path, seed: int, image_size: int = 32, hidden: int = 32) -> Path:
    import torch
    import transformers as hf

    torch.manual_seed(seed)
    config = hf.ViTConfig(
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=hidden,
        image_size=image_size,
        patch_size=8,
    )
    hf.ViTModel(config).save_pretrained(folder)
    side = {"height": image_size, "width": image_size}
    preparation = {"do_resize": True, "size": side, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(preparation))
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, and what is in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def listed(folder: Path) -> list[dict[str, str]]:
    with (folder / LIST_FILE).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rename_sample(run: Path, old: str, new: str) -> None:
    change_column(run, "id", lambda name: new if name == old else name)


def rename_kind(run: Path, old: str, new: str) -> None:
    record = record_of(run)
    for category in record["categories"]:
        if category["name"] == old:
            category["name"] = new
    write_record(run, record)
