"""Pages as their own script reads them."""

import base64
import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Page:
    """The blocks of data in a page, and the whole of it."""

    html: str
    content: dict[str, Any]
    points: bytes
    texts: dict[str, Any]
    pictures: dict[str, Any]

    @property
    def categories(self) -> dict[str, dict[str, Any]]:
        """By key."""
        return {category["key"]: category for category in self.content["categories"]}


def read_page(path: Path) -> Page:
    return parse_page(path.read_bytes().decode())


def parse_page(html: str) -> Page:
    pattern = r'<script type="(?:application/json|text/plain)" id="(\w+)">(.*?)</script>'
    blocks: dict[str, str] = dict(re.findall(pattern, html, flags=re.S))
    texts = json.loads(unpacked(blocks["texts"])) if blocks["texts"] else {}
    points = unpacked(blocks["points"]) if blocks["points"] else b""
    return Page(html, json.loads(blocks["content"]), points, texts, json.loads(blocks["pictures"]))


def unpacked(block: str) -> bytes:
    return gzip.decompress(base64.b64decode(block))
