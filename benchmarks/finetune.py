"""What fine-tuning an encoder gains: PIM on frozen features, and after so many epochs.

    python benchmarks/finetune.py IMAGES LABELS.csv [--encoder efficientnet-lite0] [--seeds 3] [--epochs 50]
        [--every 10] [--blocks 1] [--learning-rate 0.1] [--batch-size 128] [--device auto]

IMAGES is a folder of folders, whose names are the truth; LABELS.csv (path, label) says which images are labelled.
The number of categories is given. What counts is the last epoch; the others are only shown.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from newkinds import PIM, accuracy
from newkinds.data.images import read_images
from newkinds.data.raw import RawCollection
from newkinds.encoders import Encoder, encode, load_encoder
from newkinds.encoders.finetune import Finetuning, finetune
from newkinds.labels import UNLABELLED, known_categories


def scored(collection: RawCollection, encoder: Encoder, seed: int, device: str, workers: int | None) -> list[float]:
    """All, Old and New of PIM on an encoder's features, in percent."""
    found = encode(collection, encoder, workers=workers)
    truth, labels = found.collection.truth, found.collection.labels
    assert truth is not None
    model = PIM(len(np.unique(truth)), device=device, random_state=seed).fit(found.features, labels)
    unlabelled = labels == UNLABELLED
    score = accuracy(truth[unlabelled], model.labels_[unlabelled], known_categories(labels))
    return [100 * score.all, 100 * score.old, 100 * score.new]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    collection = read_images(arguments.images, labels=arguments.labels, truth="folders")
    results: dict[int, list[list[float]]] = {}
    for seed in range(arguments.seeds):
        began = time.perf_counter()

        def watch(epoch: int, encoder: Encoder, seed: int = seed) -> None:
            if epoch % arguments.every == 0 or epoch == arguments.epochs:
                score = scored(collection, encoder, seed, arguments.device, arguments.workers)
                results.setdefault(epoch, []).append(score)
                print(f"seed {seed}, epoch {epoch}: {' / '.join(f'{each:.1f}' for each in score)}", flush=True)

        watch(0, load_encoder(arguments.encoder, "images", device=arguments.device))
        settings = Finetuning(
            epochs=arguments.epochs,
            batch_size=arguments.batch_size,
            blocks=arguments.blocks,
            learning_rate=arguments.learning_rate,
            workers=arguments.workers,
            seed=seed,
        )
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "own"
            losses = finetune(collection, arguments.encoder, out, settings, device=arguments.device, watch=watch)
        print(
            f"seed {seed}: loss {losses[0]:.3f} → {losses[-1]:.3f}, {time.perf_counter() - began:.0f} s", flush=True
        )
    print("epoch   All    Old    New   (mean of seeds; 0 = frozen)")
    for epoch, scores in sorted(results.items()):
        print(f"{epoch:5d} " + " ".join(f"{each:6.1f}" for each in np.mean(scores, axis=0)))
    gain = np.mean(results[arguments.epochs], axis=0)[0] - np.mean(results[0], axis=0)[0]
    print(f"gain of the last epoch: {gain:+.1f} All")


if __name__ == "__main__":
    main()
