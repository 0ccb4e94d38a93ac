"""Fit an encoder to a collection: GCD's contrastive training of its last blocks.

Every sample has two views. InfoNCE compares all of them, the supervised contrastive loss the labelled ones
(`contrastive.py`), both through a projection head that is thrown away afterwards. Labelled and unlabelled samples
are drawn equally often. A view of an image is a random crop, mirrored or not; two views of a text differ by the
encoder's dropout.

The result holds the tensors that changed, and the name and fingerprint of the encoder they belong to. The state
after each epoch lies beside it until the training has ended: a repeated call goes on from there. Under torchrun
every process takes its share of a batch and sees the projections of all.

A classifier of SimGCD or UNO may learn along with the encoder, as in their publications: SimGCD's beside the
contrastive losses, which then compare the projection head's bottleneck; UNO's alone. It is thrown away as well: its
purpose is features that separate its categories.
"""

import json
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from newkinds.data.raw import Item, RawCollection
from newkinds.encoders.cache import content_keys
from newkinds.encoders.contrastive import ProjectionHead, info_nce, supervised_contrastive
from newkinds.encoders.encoder import Trainable, file_sha256, fingerprint
from newkinds.encoders.encoding import Unreadable, n_workers, prepared
from newkinds.encoders.loading import CHECKSUM_KEY, ENCODER_FILE, PREPARATION_KEY, TRAINED_FILE, load_encoder
from newkinds.encoders.preparation import Changes
from newkinds.encoders.training_state import WRITING_ERRORS, load_state, save_state
from newkinds.encoders.views import VIEWS, RandomView, SameView, image_preparation
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, known_categories, to_columns
from newkinds.methods.heads import CosineHead, cosine_decay, unit_rows
from newkinds.methods.simgcd import TEMPERATURE, simgcd_loss, teacher_temperature
from newkinds.methods.uno import UNOHeads
from newkinds.names import Classifier
from newkinds.runtime import (
    least_over_processes,
    n_processes,
    rank,
    report_progress,
    seeded,
    sum_over_processes,
)
from newkinds.staging import check_target, discard, staged


@dataclass(frozen=True)
class Finetuning:
    """Settings of the training. The defaults are GCD's, except for the number of epochs, which is 200 there.

    Attributes
    ----------
    epochs, batch_size : int
    blocks : int or tuple of str
        How many of the last blocks to train, see `block_names`; or their names, where that guesses wrong.
    learning_rate, head_learning_rate : float
        Of the encoder, and of the heads, which begin at random and have farther to go.
    final_learning_rate : float
        Both fall to this, along a cosine.
    supervised : float
        Weight of the supervised loss; InfoNCE has the rest.
    info_nce_temperature, supervised_temperature : float
    accumulate : int
        Parts of a batch to compute one after the other, where memory is short. A sample is compared only within
        its part.
    half : bool, optional
        Compute in bfloat16; by default on CUDA.
    outputs : int
        Width of the projection head.
    classifier : {"simgcd", "uno"}, optional
        The method whose classification loss is added to the contrastive ones (SimGCD) or takes their place (UNO).
    n_categories : int, optional
        Categories of the classifier, known and new together.
    workers : int, optional
        Processes that make the views of images.
    seed : int
    """

    epochs: int = 50
    batch_size: int = 128
    blocks: int | tuple[str, ...] = 1
    learning_rate: float = 0.1
    head_learning_rate: float = 0.1
    final_learning_rate: float = 1e-4
    momentum: float = 0.9
    weight_decay: float = 5e-5
    supervised: float = 0.35
    info_nce_temperature: float = 1.0
    supervised_temperature: float = 0.07
    accumulate: int = 1
    half: bool | None = None
    outputs: int = 65536
    classifier: Classifier | None = None
    n_categories: int | None = None
    workers: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "outputs"):
            if (count := getattr(self, name)) < 1:
                raise InputError(f"{name} must be at least 1; got {count}")
        if isinstance(self.blocks, int) and self.blocks < 1:
            raise InputError(f"blocks must be at least 1, or names; got {self.blocks}")
        if not 0 < self.momentum < 1:
            raise InputError(f"momentum must be between 0 and 1; got {self.momentum}")


def finetune(
    collection: RawCollection,
    encoder_name: str | None,
    out: Path,
    settings: Finetuning | None = None,
    *,
    device: str = "auto",
    changes: Changes | None = None,
    watch: Callable[[int, Trainable], None] | None = None,
) -> list[float]:
    """Train the last blocks of an encoder on a collection and save it; returns the mean loss of each epoch.

    Parameters
    ----------
    collection : RawCollection
        Without labels only InfoNCE counts. Samples that cannot be read are left out.
    encoder_name : str, optional
        See `newkinds.encoders.load_encoder`; ONNX files cannot be trained.
    out : path
        Folder to make; `load_encoder` takes it as a name.
    settings : Finetuning, optional
    device : str
    changes : mapping, optional
        Of the preparation of images, see `newkinds.encoders.load_encoder`.
    watch : callable, optional
        Called after each epoch with its number, from 1, and the encoder at that point.
    """
    settings = settings or Finetuning()
    state_folder = _state_folder(out)
    encoder = load_encoder(encoder_name, collection.kind, device=device, half=False, changes=changes)
    if not isinstance(encoder, Trainable):
        raise InputError(f"{encoder.name} cannot be trained: it is not a PyTorch model")
    training = _Training(_readable(collection, encoder, settings.workers), encoder, settings)
    training.resume(state_folder)
    with closing(training.views()) as views:
        for epoch in range(training.epoch, settings.epochs):
            training.run_epoch(views)
            if rank() == 0:
                training.save(state_folder)
            report_progress("fine-tuning", epoch + 1, settings.epochs)
            if watch is not None:
                watch(epoch + 1, encoder)
    if rank() == 0:
        _write(training, out)
        discard(state_folder)
    return training.losses


def block_names(module: nn.Module) -> list[str]:
    """The names of a network's blocks in order: the longest list of submodules that have weights.

    Examples
    --------
    >>> block_names(nn.Sequential(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]), nn.Linear(2, 2)))
    ['0.0', '0.1']
    """
    longest: list[str] = []
    for name, part in module.named_modules():
        if isinstance(part, nn.ModuleList | nn.Sequential):
            children = [
                f"{name}.{key}" if name else key
                for key, child in part.named_children()
                if next(child.parameters(), None) is not None
            ]
            # Of two lists of the same length the inner one counts: the outer one holds stages.
            if len(children) >= max(len(longest), 2):
                longest = children
    return longest


class _Training:
    """The state of a training: what changes from epoch to epoch, and how."""

    def __init__(self, collection: RawCollection, encoder: Trainable, settings: Finetuning) -> None:
        self.collection, self.encoder, self.settings = collection, encoder, settings
        self.losses: list[float] = []
        self.warned = False  # that no state can be written
        self.device = next(encoder.module.parameters()).device
        self.trained = _unfreeze(encoder.module, settings.blocks)
        is_text = encoder.kind == "texts"
        encoder.module.train(is_text)  # dropout makes the views of texts; batch norms stay as they are
        self.view = SameView(encoder.preparation) if is_text else RandomView(image_preparation(encoder))
        with torch.no_grad():
            width = encoder.forward([self.view((collection.items[0], 0))]).shape[1]
        known = known_categories(collection.labels)
        self.columns = to_columns(collection.labels, known)
        with self._randomness(0):
            head = _projection_head(settings, width)
            self.head = None if head is None else head.to(self.device)
            classifier = _classifier(settings, width, len(known))
            self.classifier = None if classifier is None else classifier.to(self.device)
        self.parameters = {f"encoder.{name}": value for name, value in self.trained.items()}
        for part, module in (("head", self.head), ("classifier", self.classifier)):
            if module is not None:
                self.parameters |= {f"{part}.{name}": value for name, value in module.named_parameters()}
        trained = list(self.trained.values())
        thrown_away = list(self.parameters.values())[len(trained) :]
        self.optimiser = torch.optim.SGD(
            [
                {"params": trained, "first": settings.learning_rate},
                {"params": thrown_away, "first": settings.head_learning_rate},
            ],
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )

    @property
    def epoch(self) -> int:
        """Epochs that are done."""
        return len(self.losses)

    def views(self) -> Generator[Any, None, None]:
        """The views that this process computes in the remaining epochs: batch by batch, the first views of its
        samples, then the second ones."""
        workers = n_workers(self.encoder.kind, self.settings.workers)
        return prepared(self._samples(), self.view, workers, 2 * self.settings.batch_size)

    def _samples(self) -> Iterator[tuple[Item, int]]:
        for epoch in range(self.epoch, self.settings.epochs):
            for number, rows in enumerate(self._batches(epoch)):
                seeds = np.random.default_rng((self.settings.seed, epoch, number)).integers(
                    2**62, size=(2, len(rows))
                )
                for view in range(2):
                    for at in range(rank(), len(rows), n_processes()):
                        yield self.collection.items[int(rows[at])], int(seeds[view, at])

    def _batches(self, epoch: int) -> list[IntArray]:
        """Rows of every batch of an epoch; labelled and unlabelled samples are drawn equally often."""
        labelled = self.collection.labels != UNLABELLED
        weights = np.where(labelled, 1 / max(labelled.sum(), 1), 1 / max((~labelled).sum(), 1))
        n, size = len(labelled), self.settings.batch_size
        generator = np.random.default_rng((self.settings.seed, epoch))
        drawn = generator.choice(n, n, p=weights / weights.sum())
        batches = [drawn[first : first + size] for first in range(0, n, size)]
        share = n_processes() * self.settings.accumulate  # all parts of all processes are of one size
        whole = [batch[: len(batch) // share * share] for batch in batches]
        return [batch for batch in whole if len(batch) >= 2 * share]

    def run_epoch(self, views: Iterator[Any]) -> None:
        settings, epoch = self.settings, self.epoch
        for group in self.optimiser.param_groups:
            group["lr"] = cosine_decay(group["first"], settings.final_learning_rate, epoch / settings.epochs)
        batches, losses = self._batches(epoch), []
        if not batches:
            raise InputError(f"{len(self.collection)} samples are too few for batches of {settings.batch_size}")
        with self._randomness(1 + epoch * n_processes() + rank()):
            for rows in batches:
                share = len(rows) // n_processes()
                losses.append(self._step(rows, [list(islice(views, share)) for _ in range(2)]))
                report_progress(f"epoch {epoch + 1}", len(losses), len(batches))
        loss = float(np.mean(losses))
        if not least_over_processes(int(np.isfinite(loss))):
            raise InputError(f"the training diverged in epoch {epoch + 1}; choose a smaller learning rate")
        self.losses.append(loss)

    def _step(self, rows: IntArray, own_views: list[list[Any]]) -> float:
        """One step on a batch: its rows, and the two views of this process's share of them."""
        self.optimiser.zero_grad(set_to_none=True)
        n_parts, loss_sum = self.settings.accumulate, 0.0
        for part in range(n_parts):
            first, second = (view[part::n_parts] for view in own_views)
            with self._precision():
                features = self.encoder.forward([*first, *second])
                projected = None if self.head is None else self.head(features)
            shares = [rows[process :: n_processes()][part::n_parts] for process in range(n_processes())]
            columns = torch.from_numpy(self.columns[np.concatenate(shares)]).to(self.device)
            loss = torch.zeros((), device=self.device)
            if projected is not None:
                loss = loss + self._loss(_gathered(projected.float().unflatten(0, (2, -1))), columns)
            if self.classifier is not None:
                views = _gathered(unit_rows(features.float()).view(2, -1, features.shape[1]))
                loss = loss + self._classification_loss(views, columns)
            loss = loss / n_parts
            torch.autograd.backward(loss)
            loss_sum += float(loss.detach())
        if n_processes() > 1:  # each holds the gradient through its own samples, times the number of processes
            for value in self.parameters.values():
                assert value.grad is not None
                value.grad = sum_over_processes(value.grad) / n_processes()
        self.optimiser.step()
        return loss_sum

    def _loss(self, views: Tensor, labels: Tensor) -> Tensor:
        settings = self.settings
        supervised = supervised_contrastive(views, labels, settings.supervised_temperature)
        unsupervised = info_nce(views, settings.info_nce_temperature)
        return (1 - settings.supervised) * unsupervised + settings.supervised * supervised

    def _classification_loss(self, views: Tensor, labels: Tensor) -> Tensor:
        if isinstance(self.classifier, UNOHeads):
            return self.classifier.loss(views, labels)
        assert self.classifier is not None
        teacher = teacher_temperature(self.epoch, self.settings.epochs)
        return simgcd_loss(TEMPERATURE * self.classifier(views), labels, teacher)

    def _precision(self) -> AbstractContextManager[Any]:
        half = self.device.type == "cuda" if self.settings.half is None else self.settings.half
        return torch.autocast(self.device.type, torch.bfloat16) if half else nullcontext()

    @contextmanager
    def _randomness(self, number: int) -> Iterator[None]:
        """Seed PyTorch's global generators, which dropout and initialisation draw from, for this block."""
        with seeded(int(np.random.default_rng((self.settings.seed, number)).integers(2**31)), self.device):
            yield

    @cached_property
    def description(self) -> dict[str, Any]:
        """Everything that decides the training, the content of its samples included: a saved state must agree."""
        content = [key.hex() for key in content_keys(self.collection.items)]
        samples = [self.collection.ids, self.collection.labels.tolist(), content]
        settings = json.loads(json.dumps(asdict(self.settings)))
        facts = {"encoder": self.encoder.fingerprint, "settings": settings, "processes": n_processes()}
        facts["views"] = VIEWS
        return {**facts, "samples": fingerprint({"samples": samples})}

    def save(self, folder: Path) -> None:
        tensors = {name: value.detach().contiguous() for name, value in self.parameters.items()}
        for name, value in self.parameters.items():
            tensors[f"momentum.{name}"] = self.optimiser.state[value]["momentum_buffer"].contiguous()
        try:
            save_state(folder, self.description, self.losses, tensors)
        except WRITING_ERRORS as error:
            if not self.warned:
                self.warned = True
                warnings.warn(
                    f"the state of the training cannot be written to {folder}: {error}. The training goes on, but "
                    "after an interruption it would begin again from an earlier epoch",
                    stacklevel=2,
                )

    def resume(self, folder: Path) -> None:
        """Go on from a saved state, if there is a whole one of the same training."""
        shapes = {name: value.shape for name, value in self.parameters.items()}
        shapes |= {f"momentum.{name}": shape for name, shape in shapes.items()}
        state = load_state(folder, self.description, shapes)
        if state is None:
            return
        losses, tensors = state
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(tensors[name])
                self.optimiser.state[value]["momentum_buffer"] = tensors[f"momentum.{name}"].to(self.device)
        self.losses = losses


def check_finetune_target(out: Path) -> None:
    """Refuse a place where something is; what an encoder that is there was made from is no longer needed."""
    state_folder = _state_folder(out)
    if (out / ENCODER_FILE).is_file():
        discard(state_folder)
    check_target(out, folder=True)


def _state_folder(out: Path) -> Path:
    """Where the state of a training lies until it has ended."""
    if "\0" in str(out) or not out.absolute().name:
        raise InputError(f"{str(out)!r} cannot be the name of a folder to make")
    return out.absolute().with_name(f".{out.name}.state")


def _write(training: _Training, out: Path) -> None:
    encoder = training.encoder
    record: dict[str, Any] = {
        "base": encoder.name,
        "base_fingerprint": encoder.fingerprint,
        PREPARATION_KEY: image_preparation(encoder).describe() if encoder.kind == "images" else None,
        "kind": encoder.kind,
        "settings": asdict(training.settings),
        "losses": training.losses,
        "samples": len(training.collection),
        "labelled": int((training.collection.labels != UNLABELLED).sum()),
    }
    tensors = {name: value.detach().contiguous().cpu() for name, value in training.trained.items()}
    try:
        with staged(out, folder=True) as stage:
            save_file(tensors, stage / TRAINED_FILE)
            record[CHECKSUM_KEY] = file_sha256(stage / TRAINED_FILE)
            (stage / ENCODER_FILE).write_text(json.dumps(record, indent=1), "utf-8")
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"cannot write to {out}: {error}; the same command, when there is room, goes on from the last epoch"
        ) from error


def _projection_head(settings: Finetuning, width: int) -> ProjectionHead | None:
    """What the contrastive losses compare; UNO has none."""
    if settings.classifier == "uno":
        return None
    return ProjectionHead(width, outputs=None if settings.classifier == "simgcd" else settings.outputs)


def _classifier(settings: Finetuning, width: int, n_known: int) -> CosineHead | UNOHeads | None:
    if settings.classifier is None:
        if settings.n_categories is not None:
            raise InputError("the number of categories is that of a classifier: say which, simgcd or uno")
        return None
    if settings.n_categories is None or settings.n_categories < max(2, n_known):
        raise InputError(
            f"the classifier {settings.classifier} needs the number of categories, at least the {n_known} known "
            f"ones; got {settings.n_categories}"
        )
    if settings.classifier == "uno":
        return UNOHeads(width, settings.n_categories, n_known)
    return CosineHead(width, settings.n_categories, TEMPERATURE)


def _unfreeze(module: nn.Module, blocks: int | tuple[str, ...]) -> dict[str, nn.Parameter]:
    """Make only some blocks trainable; returns their weights by name."""
    names = block_names(module)[-blocks:] if isinstance(blocks, int) else list(blocks)
    module.requires_grad_(False)
    chosen = {
        name: value
        for name, value in module.named_parameters()
        if any(name.startswith(f"{block}.") for block in names)
    }
    if not chosen:
        parts = ", ".join(name for name, _ in module.named_children())
        raise InputError(
            f"no block of the encoder is called {', '.join(names) or 'anything'}; its parts are {parts}"
        )
    for value in chosen.values():
        value.requires_grad_(True)
    return chosen


def _readable(collection: RawCollection, encoder: Trainable, workers: int | None) -> RawCollection:
    """The samples that can be read: the hundredth epoch would be too late to find out."""
    if collection.kind == "texts":
        return collection
    readable = np.zeros(len(collection), dtype=bool)
    skipped = []
    samples = prepared(collection.items, encoder.preparation, n_workers(encoder.kind, workers), encoder.batch_size)
    for row, sample in enumerate(samples):
        readable[row] = not isinstance(sample, Unreadable)
        if isinstance(sample, Unreadable):
            skipped.append((collection.ids[row], sample.why))
        report_progress("looking at the samples", row + 1, len(collection))
    if not readable.any():
        raise InputError("no sample could be read")
    return collection.only(readable, skipped)


def _gathered(views: Tensor) -> Tensor:
    """The views (2, samples, width) of all processes, in their order; gradients flow back to each process."""
    if n_processes() == 1:
        return views
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(views.contiguous()), dim=1)  # type: ignore[no-untyped-call]  # it has no types
