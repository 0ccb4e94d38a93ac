"""From features to a run folder: what `demo` and `discover` share."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newkinds.data import FeatureSet
    from newkinds.methods import CategoryDiscoverer
    from newkinds.staging import Check


def fit_and_save(
    collection: "FeatureSet",
    model: "CategoryDiscoverer",
    name: str,
    out: Path,
    quiet: bool,
    checkpoint: float,
    replace: "Check",
    *,
    with_map: bool = True,
) -> None:
    """Fit and save. Where several processes fit, the first one saves, and speaks."""
    from contextlib import nullcontext

    from rich.console import Console

    from newkinds.discovery import discover
    from newkinds.engine import checkpointing
    from newkinds.kinds import read_sureness
    from newkinds.run_folder import RUN_FILES, read_run
    from newkinds.runtime import rank
    from newkinds.staging import discard, staged
    from newkinds.terminal import Screen, progress_bars, show_run

    warnings.filterwarnings("ignore", message=".*no sample is labelled")  # said in the run, in words for people
    states = out.absolute().with_name(f".{out.name}.checkpoint")
    saving = checkpointing(states, checkpoint) if checkpoint > 0 else nullcontext()
    if rank() > 0:
        with saving:
            discover(collection, method=model)
        return
    place = staged(out, folder=True, replace=replace, ours=RUN_FILES)
    with place as folder, progress_bars(Console(stderr=True), quiet):
        with saving:
            discovery = discover(collection, method=model)
        discovery.source = name
        discovery.write(folder, with_map=with_map)
    discard(states)
    if not quiet:
        record = read_run(out)
        show_run(Screen(), record, out, read_sureness(out, record))
