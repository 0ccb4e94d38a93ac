"""Models of huggingface.co: one that is on this machine stays as it is; another is fetched, which is said first.

The libraries that load them try again for half a minute where there is no network. So whether the hub answers is
asked here, once and briefly, and only if something has to be fetched.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from newkinds.encoders.encoder import reason
from newkinds.errors import InputError

PATIENCE = 3.0
"""Seconds until a hub that does not answer is given up."""

WEIGHTS = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)
"""Files of which a model has one."""

logger = logging.getLogger(__name__)

Model = TypeVar("Model")


def load_from_hub(name: str, decisive: str, load: Callable[[bool], Model]) -> Model:
    """What `load` makes of a model; it is told whether to keep off the network.

    Parameters
    ----------
    name : str
        A folder, or a name on huggingface.co.
    decisive : str
        The file without which the model may be there, but another one than its authors meant.
    load : callable
        Raises OSError for files that are not on this machine.
    """
    if Path(name).exists():
        return load(True)
    if any(place is not None for place in _looked_up(name, decisive)):  # there, or known not to exist
        try:
            return load(True)
        except OSError as error:  # only a part of it is there
            logger.info("%s is fetched anew: %s", name, error)
    check_reachable(name)
    logger.warning("%s is not on this machine: fetching it from %s", name, _hub())
    return load(False)


def was_fetched(name: str) -> bool:
    """Whether a model is on this machine: what describes it, and weights."""
    described = any(isinstance(place, str) for place in _looked_up(name, "config.json"))
    return described and any(isinstance(place, str) for file in WEIGHTS for place in _looked_up(name, file))


def _looked_up(name: str, file: str) -> list[Any]:
    """Where a file of a model is on this machine; None: not there; anything else: known not to exist."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return []
    names = (name,) if "/" in name else (name, f"sentence-transformers/{name}")
    try:
        return [try_to_load_from_cache(full_name, file) for full_name in names]
    except ValueError:  # nothing on the hub can be called so
        return []


def check_reachable(name: str) -> None:
    """Refuse a name for which the hub would be needed while it does not answer."""
    why = why_unreachable()
    if why is not None:
        raise InputError(
            f"the encoder {name!r} cannot be loaded: it is neither a file or folder nor a model that was fetched "
            f"before, and {_hub()} cannot be reached ({why}). `newkinds encoders` lists what works offline; a "
            "folder with a model or an .onnx file does too"
        )


def why_unreachable() -> str | None:
    """Why the hub does not answer, or None if it does; after `PATIENCE` seconds at the latest."""
    from huggingface_hub import get_session

    answers: list[str | None] = []

    def ask() -> None:
        try:
            get_session().head(_address(), timeout=PATIENCE)
        except Exception as error:  # of whichever library for HTTP is used, by its version or by the user's wish
            answers.append(reason(error))
        else:
            answers.append(None)

    thread = Thread(target=ask, daemon=True)  # looking up an address has no limit of its own
    thread.start()
    thread.join(PATIENCE)
    return answers[0] if answers else f"no answer within {PATIENCE:g} seconds"


def _address() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _hub() -> str:
    return _address().partition("://")[2]
