"""Encoders to choose from: what each costs and what it is good for, as far as we measured it, and what is there.

Quality is All of PIM, the number of categories given: for images on photos of 37 breeds of pets, for texts on the
77 intents of BANKING77. Speed is in samples a second on two CPU cores. How: `docs/results/measurements.md`.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from newkinds.encoders.hub import was_fetched
from newkinds.encoders.packaged import (
    DEFAULTS,
    EARLIER_DEFAULT,
    MINILM,
    PACKAGES,
    PAPER,
    install_command,
)
from newkinds.encoders.trust import trusted_encoders
from newkinds.names import Kind

MEASURED_ON: dict[Kind, str] = {"images": "37 breeds of pets", "texts": "BANKING77"}
"""What quality was measured on."""
LIBRARIES: dict[Kind, str] = {"images": "transformers", "texts": "sentence-transformers"}
"""What loads models of huggingface.co."""


@dataclass(frozen=True)
class Offer:
    """An encoder that can be had.

    Attributes
    ----------
    name : str
        What `--encoder` takes.
    kind : {"images", "texts"}
    megabytes : int
        Of its weights.
    n_features : int
    quality, speed : float, optional
        As we measured them; None: we did not.
    about : str
        What it was trained on, and how.
    """

    name: str
    kind: Kind
    megabytes: int
    n_features: int
    about: str
    quality: float | None = None
    speed: float | None = None

    @property
    def is_default(self) -> bool:
        return DEFAULTS[self.kind] == self.name

    @property
    def is_here(self) -> bool:
        """Whether it works without a network now."""
        packages = PACKAGES.get(self.name, (LIBRARIES[self.kind],))
        return all(map(is_installed, packages)) and (self.name in PACKAGES or was_fetched(self.name))

    @property
    def how(self) -> str:
        """What makes it available."""
        if self.name in PACKAGES:
            return "installed" if self.is_here else install_command(self.name)
        if not is_installed(LIBRARIES[self.kind]):
            return f"{install_command(DEFAULTS[self.kind])}, downloads {self.megabytes} MB"
        return "fetched before" if self.is_here else f"downloads {self.megabytes} MB"

    def describe(self) -> dict[str, Any]:
        """As plain values, with what is true of it on this machine."""
        return {**asdict(self), "default": self.is_default, "available": self.is_here, "how": self.how}


OFFERS = (
    Offer("efficientnet-lite1", "images", 22, 1280, "ImageNet, with its labels; sees 240 pixels", 89.6, 24),
    Offer("efficientnet-lite0", "images", 19, 1280, "ImageNet, with its labels; sees 224 pixels", 89.2, 31),
    Offer(EARLIER_DEFAULT, "images", 88, 384, "142 million photos, without labels"),
    Offer("facebook/dinov2-base", "images", 346, 768, "142 million photos, without labels"),
    Offer(PAPER, "images", 343, 768, "ImageNet, without labels; the paper's"),
    Offer(MINILM, "texts", 91, 384, "English", 76.3, 358),
    Offer("all-mpnet-base-v2", "texts", 438, 768, "English"),
    Offer("paraphrase-multilingual-MiniLM-L12-v2", "texts", 471, 384, "50 languages"),
)
"""The default first, and those that come as packages before those of huggingface.co."""


def is_installed(package: str) -> bool:
    """Whether a package is there, by the name that pip knows it by."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def used_before() -> Iterator[tuple[str, bool]]:
    """Further encoders that the user has named on this machine, and whether each is still there."""
    names = {offer.name for offer in OFFERS}
    for name in sorted(trusted_encoders()):
        if name not in names:
            yield name, Path(name).exists() or was_fetched(name)
