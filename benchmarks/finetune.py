"""What fine-tuning an encoder gains: All accuracy on frozen features, and after so many epochs.

    python benchmarks/finetune.py IMAGES LABELS.csv [--encoder efficientnet-lite0] [--seeds 3] [--epochs 50]
        [--every 10] [--blocks 1] [--learning-rate 0.1] [--batch-size 128] [--classifier simgcd] [--device auto]

IMAGES is a folder of folders, whose names are the truth; LABELS.csv (path, label) says which images are labelled.
The number of categories is given. What counts is the last epoch; the others are only shown. `--blocks` takes a
number or names.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from newkinds import PIM, SemiSupervisedKMeans, accuracy
from newkinds.data.images import read_images
from newkinds.data.raw import RawCollection
from newkinds.encoders import Encoder, encode, load_encoder
from newkinds.encoders.finetune import Finetuning, finetune
from newkinds.labels import UNLABELLED, known_categories

COLUMNS = ("ssKM", "PIM, paper", "PIM", "its Old", "its New")


def scored(collection: RawCollection, encoder: Encoder, seed: int, device: str, workers: int | None) -> list[float]:
    """All of semi-supervised k-means, of PIM as in the paper and by default; Old and New of the last; percent."""
    found = encode(collection, encoder, workers=workers)
    truth, labels = found.collection.truth, found.collection.labels
    assert truth is not None
    unlabelled, k = labels == UNLABELLED, len(np.unique(truth))
    scores = []
    for method in (SemiSupervisedKMeans(k), PIM(k, recipe="paper"), PIM(k)):
        method.set_params(device=device, random_state=seed).fit(found.features, labels)
        scores.append(accuracy(truth[unlabelled], method.labels_[unlabelled], known_categories(labels)))
    return [100 * value for value in (*(each.all for each in scores), scores[-1].old, scores[-1].new)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--blocks", nargs="+", default=["1"])
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--classifier", default=None, choices=["simgcd", "uno"])
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    collection = read_images(arguments.images, labels=arguments.labels, truth="folders")
    assert collection.truth is not None
    blocks, n_categories = arguments.blocks, len(np.unique(collection.truth))
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
            blocks=int(blocks[0]) if blocks[0].isdigit() else tuple(blocks),
            learning_rate=arguments.learning_rate,
            classifier=arguments.classifier,
            n_categories=n_categories if arguments.classifier else None,
            workers=arguments.workers,
            seed=seed,
        )
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "own"
            losses = finetune(collection, arguments.encoder, out, settings, device=arguments.device, watch=watch)
        seconds = time.perf_counter() - began
        print(f"seed {seed}: loss {losses[0]:.3f} → {losses[-1]:.3f}, {seconds:.0f} s", flush=True)
    print("epoch " + "".join(f"{name:>12}" for name in COLUMNS) + "   (mean of seeds; 0 = frozen)")
    means = {epoch: np.mean(scores, axis=0) for epoch, scores in sorted(results.items())}
    for epoch, mean in means.items():
        print(f"{epoch:5d} " + "".join(f"{each:12.1f}" for each in mean))
    print("gain  " + "".join(f"{each:+12.1f}" for each in means[arguments.epochs] - means[0]))


if __name__ == "__main__":
    main()
