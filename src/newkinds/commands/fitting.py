"""From features to a run folder: what `demo` and `discover` share."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from newkinds.data import FeatureSet
    from newkinds.methods import CategoryDiscoverer


def fit_and_save(
    collection: "FeatureSet", model: "CategoryDiscoverer", name: str, out: Path, quiet: bool, checkpoint: float
) -> None:
    """Fit and save. Where several processes fit, the first one saves, and speaks."""
    from contextlib import nullcontext

    from rich.console import Console

    from newkinds.data import staged
    from newkinds.engine import checkpointing
    from newkinds.report import write_report
    from newkinds.run_folder import read_run
    from newkinds.runs import discover, save_run
    from newkinds.runtime import rank
    from newkinds.terminal import Screen, progress_bars, show_run

    states = out.absolute().with_name(f".{out.name}.checkpoint")
    saving = checkpointing(states, checkpoint) if checkpoint > 0 else nullcontext()
    if rank() > 0:
        with saving:
            discover(collection, model)
        return
    with staged(out, folder=True) as folder, progress_bars(Console(stderr=True), quiet):
        with saving:
            discovery = discover(collection, model)
        save_run(discovery, folder, name)
        write_report(folder)
    shutil.rmtree(states, ignore_errors=True)
    if not quiet:
        show_run(Screen(), read_run(out))
        typer.echo(f"\nResults are in {out}; open {out / 'report.html'} to look at them.")
