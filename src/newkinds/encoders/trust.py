"""Which encoders a run may name and have loaded: the package's own, and those that the user has given before.

A run folder may come from somebody else, and its `run.json` may name any model or folder. `load_encoder` remembers
what a person names (`--encoder` on the command line): `trusted-encoders.json` in the user's cache folder maps the
name, or the resolved path, to fingerprints: one for each way in which images were prepared for it. A name that only
a run gives is loaded if it is remembered there with the run's fingerprint, or is one of
`newkinds.encoders.packaged`.
"""

import json
import logging
from pathlib import Path
from typing import Any

from newkinds.encoders.cache import default_cache
from newkinds.encoders.packaged import is_own
from newkinds.errors import InputError
from newkinds.staging import accept_existing, staged

TRUSTED_FILE = "trusted-encoders.json"
MOST_FINGERPRINTS = 16
"""Of one name that are remembered: the last ones."""

logger = logging.getLogger(__name__)


def located(name: str) -> str:
    """The name of an encoder: the resolved path if it is a file or folder, so that it is found from elsewhere."""
    try:
        path = Path(name)
        return str(path.resolve()) if path.exists() else name
    except (OSError, ValueError, RuntimeError) as error:  # a NUL, a name that is too long, a loop of links
        raise InputError(f"no encoder can be called {name!r}: {error}") from error


def trusted_encoders() -> dict[str, list[str]]:
    """The fingerprints of the encoders that were given on this machine. A damaged file trusts nothing."""
    try:
        path = default_cache() / TRUSTED_FILE
        if not path.is_file():
            return {}
        trusted = json.loads(path.read_text("utf-8"), object_pairs_hook=_without_repetition)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no home folder; nested too deeply
        logger.warning("the list of trusted encoders cannot be read, so none is trusted: %s", error)
        return {}
    if not isinstance(trusted, dict) or not all(map(_are_fingerprints, trusted.values())):
        logger.warning("%s is damaged, so no encoder is trusted", path)
        return {}
    # Earlier versions remembered a single one.
    return {name: [marks] if isinstance(marks, str) else marks for name, marks in trusted.items()}


def _are_fingerprints(marks: Any) -> bool:
    return isinstance(marks, str) or (isinstance(marks, list) and all(isinstance(mark, str) for mark in marks))


def remember_encoder(name: str, fingerprint: str) -> None:
    """Trust an encoder that a person has named from now on. If that cannot be written, the next run asks again."""
    trusted = trusted_encoders()
    marks = trusted.get(name, [])
    if marks[-1:] == [fingerprint]:
        return
    others = [mark for mark in marks if mark != fingerprint]
    content = {**trusted, name: [*others, fingerprint][-MOST_FINGERPRINTS:]}
    try:
        with staged(default_cache() / TRUSTED_FILE, replace=accept_existing) as stage:
            stage.write_text(json.dumps(content, indent=1, sort_keys=True), "utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        logger.info("the encoder %r cannot be remembered: %s", name, error)


def check_trusted(name: str, fingerprint: str, untrusted: str, changed: str) -> None:
    """Refuse an encoder that only a file names, unless it is the package's own or was given on this machine.

    `untrusted` is the error's text for an encoder that was never given, `changed` for one that had another
    fingerprint when it was given.
    """
    place = located(name)
    if place == name and is_own(name):
        return
    remembered = trusted_encoders().get(place)
    if remembered is None:
        raise InputError(untrusted)
    if fingerprint not in remembered:
        raise InputError(changed)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a name occurs twice")
    return content
