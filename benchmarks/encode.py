"""Is the pipeline the bottleneck? Samples a second through `encode` beside those of the bare model.

    python benchmarks/encode.py SOURCE [--encoder NAME] [--text COLUMN] [--samples 512] [--repeats 3] [--workers N]

SOURCE is a folder of images or a table of texts. The bare model is given the same samples, prepared beforehand, in
batches of the same size. Both are measured in turn, several times; the best of each counts.
"""

import argparse
import time

import numpy as np

from newkinds.data import RawCollection, read_source
from newkinds.encoders import encode, load_encoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("source")
    parser.add_argument("--encoder", default=None)
    parser.add_argument("--text", default=None)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    collection = read_source(arguments.source, text=arguments.text)
    assert isinstance(collection, RawCollection), "there is nothing to encode"
    spread = np.isin(np.arange(len(collection)), np.linspace(0, len(collection) - 1, arguments.samples).astype(int))
    some = collection.only(spread)
    encoder = load_encoder(arguments.encoder, some.kind, device=arguments.device)
    prepared = [encoder.preparation(item) for item in some.items]
    bare, whole = [], []
    for _ in range(arguments.repeats):
        began = time.perf_counter()
        for first in range(0, len(prepared), encoder.batch_size):
            encoder.encode(prepared[first : first + encoder.batch_size])
        bare.append(len(prepared) / (time.perf_counter() - began))
        found = encode(some, encoder, workers=arguments.workers)
        whole.append(found.n_computed / found.seconds)
    print(f"{encoder.name}, {len(prepared)} {some.kind}, batches of {encoder.batch_size}")
    print(f"bare model  {max(bare):8.1f} a second  ({min(bare):.1f} at worst)")
    print(f"encode      {max(whole):8.1f} a second  ({min(whole):.1f} at worst)")
    print(f"encode / bare {100 * max(whole) / max(bare):.0f} %")


if __name__ == "__main__":
    main()
