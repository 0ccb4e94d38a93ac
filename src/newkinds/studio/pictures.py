"""Pictures of samples: the small ones that a run keeps, and the photos, from the run's own source only."""

import io
import threading
from collections import OrderedDict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from newkinds.data.opening import open_image
from newkinds.errors import InputError
from newkinds.names import IMAGE_ENDINGS
from newkinds.report.content import SMALL_PICTURE
from newkinds.run_folder import PICTURES, picture_type, pictures_file
from newkinds.run_record import open_file
from newkinds.studio.live_run import LiveRun

LARGEST_SIDE = 1_200
"""Pixels of a photo as it is shown."""
LARGEST_FILE = 256 << 20
"""Bytes of a photo that is opened."""
KEPT_GROUPS, KEPT_PHOTOS = 4, 32
"""Row groups of small pictures, and photos, that are kept in memory."""
LOOKED_AT = 10
"""Small pictures that tell how large all of them are."""
QUALITY = 82


class SmallPictures:
    """The pictures beside a run's predictions, read a row group at a time."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        self._samples_of = self._live.samples_of
        self._path = pictures_file(self._live.folder, {"samples": self._samples_of})
        self._groups: OrderedDict[int, pa.ChunkedArray] = OrderedDict()
        with open_file(self._path) as file, pq.ParquetFile(file) as table:
            sizes = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
            self._n_samples = sum(sizes) if PICTURES in table.schema_arrow.names else 0
        self._firsts = [sum(sizes[:group]) for group in range(len(sizes))]

    def read(self, row: int) -> tuple[bytes, str] | None:
        """A picture and its type; None where there is none."""
        with self._lock:
            if self._live.samples_of != self._samples_of:
                self._open()
            if row >= self._n_samples:
                return None
            group = max(i for i, first in enumerate(self._firsts) if first <= row)
            try:
                column = self._column(group)
            except (pa.ArrowException, OSError, ValueError, KeyError) as error:
                raise InputError(f"{self._path} cannot be read: {error}") from error
            picture = column[row - self._firsts[group]].as_py()
        kind = picture_type(picture)
        return None if kind is None else (picture, kind)

    def are_tiny(self) -> bool:
        """Whether the pictures have so few pixels that they should stay sharp."""
        some = [self.read(row) for row in range(LOOKED_AT)]
        sizes = [len(picture[0]) for picture in some if picture is not None]
        return bool(sizes) and max(sizes) < SMALL_PICTURE

    def _column(self, group: int) -> pa.ChunkedArray:
        if group not in self._groups:
            with open_file(self._path) as file, pq.ParquetFile(file) as table:
                self._groups[group] = table.read_row_group(group, [PICTURES])[PICTURES]
            while len(self._groups) > KEPT_GROUPS:
                self._groups.popitem(last=False)
        self._groups.move_to_end(group)
        return self._groups[group]


class Photos:
    """The photos that a run was made of, shown as WebP: no other file, and no other content, leaves here."""

    def __init__(self, live: LiveRun) -> None:
        root = live.edited.record["source"].get("root")
        self._root = Path(root).resolve() if root is not None and Path(root).is_dir() else None
        self._kept: OrderedDict[Path, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, name: str) -> bytes | None:
        """The photo with an id; None where it is gone, or is none, or would lead out of the photos' folder."""
        path = self.find(name)
        if path is None:
            return None
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        try:
            picture = shown_photo(path)
        except (InputError, OSError):
            return None
        with self._lock:
            self._kept[path] = picture
            while len(self._kept) > KEPT_PHOTOS:
                self._kept.popitem(last=False)
        return picture

    def find(self, name: str) -> Path | None:
        """The file of an id: within the photos' folder once all links are followed, and called like an image."""
        if self._root is None or "\0" in name:
            return None
        try:
            path = (self._root / name).resolve(strict=True)
            fits = path.is_relative_to(self._root) and path.is_file() and path.stat().st_size <= LARGEST_FILE
        except (OSError, ValueError, RuntimeError):
            return None
        return path if fits and path.suffix.lower() in IMAGE_ENDINGS else None


def shown_photo(path: Path) -> bytes:
    """A photo as WebP, its longer side of at most `LARGEST_SIDE` pixels."""
    image = open_image(path, at_least=LARGEST_SIDE)
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    file = io.BytesIO()
    image.save(file, "WEBP", quality=QUALITY)
    return file.getvalue()
