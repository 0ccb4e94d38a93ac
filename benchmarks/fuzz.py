"""Can damaged files bring about a traceback, or another answer that nobody notices?

    python benchmarks/fuzz.py [--examples 2000] [--only NAME] [--new] [--keep FOLDER]

Damages the files of each target so many times, uses them, and compares with what the untouched files answer. Prints
how many damages were refused, changed nothing, or changed an answer where that cannot be noticed (runs without
checksums), and every kind of fault with an example. The exit code is 1 if there was any.

A further target is an entry of `TARGETS`; see `tests.fuzzing.Target`.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from hypothesis import settings

from tests.fuzzing import Fault, outcomes
from tests.kept_targets import KEPT_TARGETS
from tests.run_targets import RUN_TARGETS

TARGETS = [*RUN_TARGETS, *KEPT_TARGETS]
SHOWN_BYTES = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--examples", type=int, default=2000, help="damages of each target")
    parser.add_argument("--only", default="", help="targets whose name contains this")
    parser.add_argument("--new", action="store_true", help="other damages in every call, not always the same")
    parser.add_argument("--keep", type=Path, default=None, help="folder for the files that brought about a fault")
    arguments = parser.parse_args()
    settings.register_profile("fuzz", derandomize=not arguments.new)
    settings.load_profile("fuzz")
    n_faults = 0
    print(f"{'target':30}{'damages':>9}{'refused':>9}{'same':>9}{'other':>9}{'faults':>9}{'seconds':>9}")
    for target in TARGETS:
        if arguments.only not in target.name:
            continue
        began, counts = time.perf_counter(), Counter[str]()
        faults: dict[str, Fault] = {}
        n_found = 0
        with tempfile.TemporaryDirectory(prefix="newkinds-fuzz-") as folder:
            for outcome, fault in outcomes(target, Path(folder), arguments.examples):
                counts[outcome] += 1
                if fault is not None:
                    n_found += 1
                    faults.setdefault(fault.reason.replace(folder, "")[:120], fault)
        figures = [counts.total(), *(counts[outcome] for outcome in ("refused", "same", "other")), n_found]
        seconds = time.perf_counter() - began
        print(f"{target.name:30}" + "".join(f"{n:9,}" for n in figures) + f"{seconds:9.0f}", flush=True)
        for number, (reason, fault) in enumerate(faults.items()):
            print(f"    {reason}\n        {fault.content[:SHOWN_BYTES]!r}", flush=True)
            if arguments.keep is not None:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / f"{target.name.replace(' ', '-')}-{number}").write_bytes(fault.content)
        n_faults += n_found
    sys.exit(1 if n_faults else 0)


if __name__ == "__main__":
    main()
