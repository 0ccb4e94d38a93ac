"""Collections that live on: samples and kinds that come later, by updates and by fitting everything again.

    python benchmarks/living.py FEATURES [--sets NAME …] [--seeds 1 2 3] [--parts 1] [--rows update refit assign]
        [--mostly-old] [--device auto] [--out RESULTS.jsonl]

FEATURES is a folder of feature sets in the released four-file layout. Half of the categories are there at first,
with 60 % of their samples; four fifths of these categories are known, by labels of half of their samples. The rest
of their samples, and the other categories, come over five stages: a category with 70 % of its samples at its first
stage, with the others later. With --mostly-old a stage brings few new categories: 5 % of its samples. --parts cuts
every arrival into so many.

update   what fits is assigned, strangers are held back, and born when they agree (`newkinds update`)
refit    `PIM()`, the number of categories unknown, on all samples, anew at every stage
assign   the first model's answers, whatever comes

All, Old and New are of the unlabelled samples that are there after the last stage. *One matching*: categories are
matched with the truth once for the whole stream (the answers of every stage together), so ids that change cost.
*Due*: kinds of which 20 samples have come; *found*: which of them is what most samples of a born category are.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from newkinds import PIM, read_features
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.refitting import Wanted
from newkinds.methods.updating import Arrival, take_in
from newkinds.metrics import accuracy, match_categories

STAGES = 5
FIRST_SHARE, COMING_SHARE, KNOWN_SHARE = 0.6, 0.7, 0.8
DUE = 20
"""Samples of a category from which it should be there."""
Result = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """Samples, the stage at which each comes, and what is known of them."""

    features: npt.NDArray[np.float32]
    truth: IntArray
    stage: IntArray
    labels: IntArray
    known: IntArray
    first: IntArray

    @classmethod
    def of(cls, path: Path, seed: int, mostly_old: bool) -> "Stream":
        collection = read_features(path)
        assert collection.truth is not None
        truth = collection.truth
        n = len(np.unique(truth))
        generator = np.random.default_rng([seed, 7])
        order = generator.permutation(n)
        first, rest = order[: n // 2], order[n // 2 :]
        known = first[: round(KNOWN_SHARE * len(first))]
        stage = np.zeros(len(truth), dtype=np.int64)
        for category in range(n):
            rows = generator.permutation(np.flatnonzero(truth == category))
            if category in first:
                n_first = round(FIRST_SHARE * len(rows))
                stage[rows[n_first:]] = 1 + np.arange(len(rows) - n_first) % STAGES
            else:
                begins = 1 + int(np.flatnonzero(rest == category)[0]) * STAGES // len(rest)
                n_first = round(COMING_SHARE * len(rows)) if begins < STAGES else len(rows)
                stage[rows[:n_first]] = begins
                if begins < STAGES:
                    later = begins + 1 + np.arange(len(rows) - n_first) % (STAGES - begins)
                    stage[rows[n_first:]] = later
        labelled = np.isin(truth, known) & (stage == 0) & (generator.random(len(truth)) < 0.5)
        if mostly_old:  # of the kinds that come, so many that 5 % of what comes is new
            n_old = int(((stage > 0) & np.isin(truth, first)).sum())
            counts = np.cumsum([int((truth == category).sum()) for category in rest])
            stays = rest[: max(1, int(np.searchsorted(counts, n_old / 19)))]
            stage[~np.isin(truth, [*first, *stays])] = -1
        there = stage >= 0
        labels = np.where(labelled, truth, UNLABELLED)
        features = np.asarray(collection.features[there], dtype=np.float32)
        return cls(features, truth[there], stage[there], labels[there], np.sort(known), np.sort(first))


class Living:
    """A model that takes arrivals in."""

    def __init__(self, model: PIM, stream: Stream) -> None:
        self.model, self.stream = model, stream
        self.rows = np.flatnonzero(stream.stage == 0)
        self.categories = model.labels_.copy()
        self.held = np.zeros(len(self.rows), dtype=bool)
        self.last = int(model.categories_.max())
        self.born: list[int] = []

    def update(self, rows: IntArray) -> tuple[float, int]:
        """Seconds, and how many samples of before moved."""
        n_before = len(self.rows)
        self.rows = np.concatenate([self.rows, rows])
        categories = np.concatenate([self.categories, np.full(len(rows), UNLABELLED)])
        settled = self.stream.labels[self.rows] != UNLABELLED
        held = np.concatenate([self.held, np.zeros(len(rows), dtype=bool)])
        arrival = Arrival(self.stream.features[self.rows], categories, settled, held, n_before)
        ids = self.model.categories_
        same = {int(i): int(i) for i in ids}
        wanted = Wanted(ids, self.model.known_categories_, categories, categories, same)
        began = time.perf_counter()
        taken = take_in(self.model, arrival, wanted, self._new_id, lam=self.model.lam_)
        taken.model.learnt_strangers()
        seconds = time.perf_counter() - began
        moved = int((taken.categories[:n_before] != self.categories).sum())
        self.model, self.categories, self.held = taken.model, taken.categories, taken.held
        self.born += taken.born
        return seconds, moved

    def _new_id(self) -> int:
        self.last += 1
        return self.last


def run_update(stream: Stream, model: PIM, parts: int) -> Result:
    living = Living(model, stream)
    states, seconds, moved, due, found = [(living.rows, living.categories)], [], [], 0, 0
    coming = np.setdiff1d(np.unique(stream.truth), stream.first)
    seen_due: set[int] = set()
    for stage in range(1, STAGES + 1):
        rows = np.random.default_rng(stage).permutation(np.flatnonzero(stream.stage == stage))
        for part in np.array_split(rows, parts):
            took, n_moved = living.update(part)
            seconds.append(took)
            moved.append(n_moved / len(living.rows))
        states.append((living.rows, living.categories))
        truth = stream.truth[living.rows]
        now_due = {c for c in coming.tolist() if (truth == c).sum() >= DUE} - seen_due
        seen_due |= now_due
        due += len(now_due)
        found += len(now_due & {_mostly(truth, living.categories, c) for c in living.born})
    truth = stream.truth[living.rows]
    tops = [_mostly(truth, living.categories, category) for category in living.born]
    n_false = sum(top is None or top in stream.first for top in tops)
    return {
        **score(stream, states),
        "seconds": max(seconds),
        "moved": float(np.mean(moved)),
        "born": len(tops),
        "false": n_false,
        "due": due,
        "found": found,
        "n_categories": len(living.model.categories_),
        "held": int(living.held.sum()),
    }


def _mostly(truth: IntArray, categories: IntArray, category: int) -> int | None:
    members = truth[categories == category]
    return int(np.bincount(members).argmax()) if len(members) else None


def run_refit(stream: Stream, model: PIM, device: str) -> Result:
    states, seconds = [(np.flatnonzero(stream.stage == 0), model.labels_)], []
    for stage in range(1, STAGES + 1):
        rows = np.flatnonzero(stream.stage <= stage)
        began = time.perf_counter()
        again = PIM(random_state=0, device=device).fit(stream.features[rows], stream.labels[rows])
        seconds.append(time.perf_counter() - began)
        states.append((rows, again.labels_))
    return {**score(stream, states), "seconds": max(seconds), "n_categories": again.n_categories_}


def run_assign(stream: Stream, model: PIM) -> Result:
    states = []
    for stage in range(STAGES + 1):
        rows = np.flatnonzero(stream.stage <= stage)
        states.append((rows, model.predict(stream.features[rows])))
    strange = np.flatnonzero(stream.stage > 0)
    is_strange = ~np.isin(stream.truth[strange], stream.first)
    asked = stream.features[strange]
    return {
        **score(stream, states),
        "n_categories": model.n_categories_,
        "auroc": float(roc_auc_score(is_strange, model.strangeness(asked))),
        "auroc of 1 - confidence": float(roc_auc_score(is_strange, 1 - model.assess(asked).confidence)),
    }


def score(stream: Stream, states: list[tuple[IntArray, IntArray]]) -> Result:
    """Accuracy at the end by a matching of its own and by one for the whole stream, and what was forgotten."""
    rows, categories = states[-1]
    open_rows = stream.labels[rows] == UNLABELLED
    own = accuracy(stream.truth[rows][open_rows], categories[open_rows], stream.known)
    pairs = [
        (stream.truth[r][stream.labels[r] == UNLABELLED], c[stream.labels[r] == UNLABELLED]) for r, c in states
    ]
    matching = match_categories(np.concatenate([t for t, _ in pairs]), np.concatenate([c for _, c in pairs]))
    right = [np.array([matching.get(int(c), -1) for c in found]) == truth for truth, found in pairs]
    is_first = stream.stage[rows][open_rows] == 0
    return {
        "all": 100 * own.all,
        "old": 100 * own.old,
        "new": 100 * own.new,
        "one": 100 * float(right[-1].mean()),
        "stages": [100 * float(each.mean()) for each in right],
        "forgotten": 100 * float(right[0].mean() - right[-1][is_first].mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path)
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--rows", nargs="+", choices=["update", "refit", "assign"], default=["update", "assign"])
    parser.add_argument("--mostly-old", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    names = arguments.sets or sorted(path.name for path in arguments.features.iterdir() if path.is_dir())
    results: list[Result] = []
    for name in names:
        for seed in arguments.seeds:
            stream = Stream.of(arguments.features / name, seed, arguments.mostly_old)
            at_first = stream.stage == 0
            began = time.perf_counter()
            model = PIM(random_state=0, device=arguments.device).fit(
                stream.features[at_first], stream.labels[at_first]
            )
            first_seconds = time.perf_counter() - began
            model.learnt_strangers()
            for row in arguments.rows:
                found = {
                    "update": lambda s=stream, m=model: run_update(s, m, arguments.parts),
                    "refit": lambda s=stream, m=model: run_refit(s, m, arguments.device),
                    "assign": lambda s=stream, m=model: run_assign(s, m),
                }[row]()
                found = {"set": name, "seed": seed, "row": row, "first": first_seconds, **found}
                results.append(found)
                shown = {key: round(v, 3) if isinstance(v, float) else v for key, v in found.items()}
                print(json.dumps(shown), flush=True)
                if arguments.out is not None:
                    with arguments.out.open("a") as file:
                        file.write(json.dumps(found) + "\n")
    print(
        f"\n{'':24s}{'row':8s}{'All':>7s}{'one':>7s}{'forgot':>8s}{'found':>8s}{'false':>7s}{'moved':>7s}{'s':>7s}"
    )
    for name in names:
        for row in arguments.rows:
            some = [r for r in results if (r["set"], r["row"]) == (name, row)]
            mean = {
                key: np.mean([r.get(key, np.nan) for r in some]) for key in ("all", "one", "forgotten", "seconds")
            }
            born, due = sum(r.get("born", 0) for r in some), sum(r.get("due", 0) for r in some)
            n_false, n_found = sum(r.get("false", 0) for r in some), sum(r.get("found", 0) for r in some)
            moved = np.mean([r.get("moved", np.nan) for r in some])
            print(
                f"{name[:23]:24s}{row:8s}{mean['all']:7.1f}{mean['one']:7.1f}{mean['forgotten']:8.1f}"
                f"{n_found:4d}/{due:<4d}{n_false:3d}/{born:<4d}{100 * moved:6.1f}%{mean['seconds']:7.1f}"
            )


if __name__ == "__main__":
    main()
