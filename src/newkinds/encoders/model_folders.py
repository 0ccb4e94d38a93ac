"""Model folders are data: one that asks for code of its own is refused before any library looks at it.

transformers and sentence-transformers are called with `trust_remote_code=False` as well. This check comes first, so
that safety does not depend on how their versions understand that argument.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from newkinds.errors import InputError

MODULES_FILE = "modules.json"
"""Where sentence-transformers lists the classes that a model consists of."""
DEPTHS = ("*.json", "*/*.json", "*/*/*.json")
"""Where configurations lie: of the model, of its modules, and of the modules of a router."""
VOCABULARIES = ("tokenizer.json", "vocab.json", "added_tokens.json", "special_tokens_map.json")
"""JSON files that are large and never name code."""
KNOWN_CLASS = re.compile(r"(sentence_transformers|torch\.nn)(\.[a-z][a-z0-9_]*)*\.[A-Z][A-Za-z0-9]*")
"""Classes that a model may consist of."""
CLASS_KEYS = ("activation_function", "type")
"""Keys whose values sentence-transformers imports if there is a dot in them."""
KERNEL_KEYS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
"""Keys whose values transformers downloads as compiled code if there is a slash in them."""


def check_model_folder(folder: Path) -> None:
    """Refuse a folder whose configuration names code that is not part of the libraries that load it."""
    for path in _configurations(folder):
        try:
            content = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"the encoder {str(folder)!r} cannot be loaded: {path} is damaged: {error}") from error
        code = next(_code_of_modules(content) if path.name == MODULES_FILE else _named_code(content), None)
        if code is not None:
            raise InputError(
                f"the encoder {str(folder)!r} is refused: {path.name} names code of its own ({code}), which would "
                "run on this machine; only models of transformers and sentence-transformers themselves are loaded"
            )


def _configurations(folder: Path) -> Iterator[Path]:
    for path in (path for depth in DEPTHS for path in sorted(folder.glob(depth))):
        if path.is_file() and path.name not in VOCABULARIES and not path.name.endswith(".index.json"):
            yield path


def _code_of_modules(content: Any) -> Iterator[str]:
    """What a `modules.json` names beside classes of sentence-transformers and PyTorch, and folders inside."""
    if not isinstance(content, list):
        yield "not a list of modules"
        return
    for module in content:
        class_name, path = (module.get(key) if isinstance(module, dict) else None for key in ("type", "path"))
        if not isinstance(class_name, str) or not KNOWN_CLASS.fullmatch(class_name):
            yield f"type {class_name!r}"
        elif not isinstance(path, str) or len(PurePosixPath(path).parts) > 1 or path in ("..", "/"):
            yield f"path {path!r}"
        else:
            yield from _named_code(module)


def _named_code(content: Any) -> Iterator[str]:
    """Every place in a configuration, at any depth, that would make a library import or download code."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        if not isinstance(value, dict):
            continue
        waiting += value.values()
        if value.get("auto_map"):
            yield "auto_map"
        if value.get("trust_remote_code"):
            yield "trust_remote_code"
        classes = [value.get(key) for key in CLASS_KEYS]
        if isinstance(types := value.get("types"), dict):  # of a Router of sentence-transformers
            classes += types.values()
        for class_name in classes:
            if isinstance(class_name, str) and "." in class_name and not KNOWN_CLASS.fullmatch(class_name):
                yield class_name
        for key in KERNEL_KEYS:
            if isinstance(kernel := value.get(key), str) and "/" in kernel:
                yield f"{key} {kernel!r}"
