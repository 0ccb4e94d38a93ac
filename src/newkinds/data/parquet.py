"""Parquet: a file, a folder of files (a data set), or a remote address of either, read in blocks; and what Hugging
Face's `datasets` saved, which is read in the same way.

Remote addresses are those that pyarrow's file systems know (`s3://…`, `gs://…`, `file://…`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from newkinds.data.files import checked, is_parquet, is_saved_dataset, load_checked
from newkinds.data.remote import remote_file
from newkinds.data.saved_datasets import read_saved_dataset
from newkinds.data.tables import STRING_TYPES, Table, id_rank
from newkinds.errors import InputError
from newkinds.names import PANDAS_INDEX, is_remote
from newkinds.runtime import check_memory

PARQUET = "a Parquet file"
MOST_NUMBERS = 8
"""Columns of numbers that a table of texts may have; with more, it holds features, each with a text to show."""
BLOCK_ROWS = 1 << 14
"""Rows that are read at a time."""
FEATURES, LABEL, TRUTH, TEXT, ID = "features", "label", "truth", "text", "id"
EXTRAS = {ID: "ids", LABEL: "labels", TRUTH: "truth", TEXT: "texts"}
"""Columns that are never features, and what a feature set calls them."""
NUMERIC_TYPES = (
    "halffloat",
    "float",
    "double",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)


@dataclass(frozen=True, eq=False)
class ParquetFiles:
    """Parquet files of the same columns, as one table.

    Attributes
    ----------
    name : str
        The place, for errors.
    dataset : pyarrow.dataset.Dataset
    """

    name: str
    dataset: ds.Dataset
    id_name: str | None = None

    @classmethod
    def open(cls, source: str | Path, id: str | None = None) -> "ParquetFiles":
        """Find the files and compare their columns; no row is read yet. `id` is the column that names each row."""
        name = str(source)
        if is_remote(name):
            system, inside = remote_file(name)
            return cls(name, checked(name, PARQUET, lambda: _dataset(system, inside, name)), id)
        path = Path(source)
        if is_saved_dataset(path):
            return cls(name, ds.dataset(pa.table(read_saved_dataset(path))), id)
        kind = "a folder of Parquet files" if path.is_dir() else PARQUET
        system = pa_fs.LocalFileSystem()
        return cls(name, load_checked(path, kind, lambda: _dataset(system, path.absolute().as_posix(), name)), id)

    @property
    def schema(self) -> pa.Schema:
        return self.dataset.schema

    @cached_property
    def n_rows(self) -> int:
        return int(checked(self.name, PARQUET, self.dataset.count_rows))

    def metadata(self, key: str) -> str | None:
        """An entry of the metadata of the (first) file."""
        value = (self.schema.metadata or {}).get(key.encode())
        return None if value is None else value.decode("utf-8", "replace")

    def table(self) -> pa.Table:
        """All rows, all columns."""
        return checked(self.name, PARQUET, self.dataset.to_table)

    def blocks(self, columns: list[str] | None = None, n_rows: int = BLOCK_ROWS) -> Iterator[pa.Table]:
        """The rows in order, at most so many at a time; memory does not grow with the files."""
        wanted = self.schema.names if columns is None else columns
        for fragment in self.dataset.get_fragments():
            parts = _blocks_of(fragment, self.schema, wanted, n_rows)
            while (block := checked(self.name, PARQUET, partial(next, parts, None))) is not None:
                if block.num_rows:
                    yield block

    @property
    def has_features(self) -> bool:
        """Whether there is a column of features, or there are columns of numbers but hardly any text."""
        if FEATURES in self.schema.names:
            return True
        types = [str(field.type) for field in self.schema if field.name not in (LABEL, TRUTH, *self._no_features)]
        n_numbers = sum(kind in NUMERIC_TYPES for kind in types)
        has_texts = any(kind.startswith(STRING_TYPES) for kind in types)
        return bool(n_numbers > (MOST_NUMBERS if has_texts else 0))

    @cached_property
    def id_column(self) -> str | None:
        """The column that names the rows: the one asked for, else `id`, else one that is called so and does."""
        table = Table(Path(self.name), {field.name: field for field in self.schema})
        if self.id_name is not None or table.find(ID) is not None:
            return table.column(self.id_name, ID)
        names: list[str] = self.schema.names
        candidates = [name for name in names if id_rank(name) is not None]
        for name in sorted(candidates, key=lambda name: id_rank(name) or 0):
            kind = str(self.schema.field(name).type)
            if kind.startswith(STRING_TYPES) or (kind in NUMERIC_TYPES and "int" in kind):
                column = checked(self.name, PARQUET, partial(self.dataset.to_table, columns=[name]))[name]
                if not column.null_count and pc.count_distinct(column).as_py() == len(column):
                    return name
        return None

    @cached_property
    def _no_features(self) -> set[str | None]:
        """Columns that never are features: those that name the rows, or the folders that the files are in."""
        fragment = next(iter(self.dataset.get_fragments()), None)
        in_files = self.schema.names if fragment is None else fragment.physical_schema.names
        by_folder = set(self.schema.names) - set(in_files)
        index = {name for name in self.schema.names if name.startswith(PANDAS_INDEX)}
        return {self.id_column, *by_folder, *index}

    @cached_property
    def feature_columns(self) -> tuple[str, ...] | None:
        """The columns that hold a feature each; None if the column `features` holds lists of them."""
        names = self.schema.names
        if FEATURES in names:
            kind = self.schema.field(FEATURES).type
            if str(getattr(kind, "value_type", None)) not in NUMERIC_TYPES or not _is_list(kind):
                raise InputError(f"{self.name}: 'features' must be a column of lists of numbers; it is {kind}")
            return None
        if plural := next((field for field in EXTRAS.values() if field in names and field not in EXTRAS), None):
            raise InputError(
                f"{self.name}: is the column {plural!r} a feature? Call it by its singular if it is not"
            )
        numeric = tuple(
            field.name
            for field in self.schema
            if str(field.type) in NUMERIC_TYPES and field.name not in (*EXTRAS, *self._no_features)
        )
        if not numeric:
            others = ", ".join(name for name in names if name not in EXTRAS) or "none"
            raise InputError(f"{self.name}: a column 'features' or numeric columns are needed; found {others}")
        return numeric

    @property
    def other_columns(self) -> list[str]:
        """The columns that are no features."""
        features = (FEATURES,) if self.feature_columns is None else self.feature_columns
        return [name for name in self.schema.names if name not in features and not name.startswith(PANDAS_INDEX)]

    def features_in(self, block: pa.Table) -> npt.NDArray[np.float32]:
        """The features of some rows."""
        if self.feature_columns is not None:
            return np.column_stack([self._numbers(name, block[name]) for name in self.feature_columns])
        lists = block[FEATURES].combine_chunks()
        lengths = pc.min_max(pc.fill_null(pc.list_value_length(lists), -1)).as_py()
        if lengths["min"] != lengths["max"] or lengths["min"] < 1:
            raise InputError(f"{self.name}: every row of 'features' must be a list of the same length")
        return self._numbers(FEATURES, lists.flatten()).reshape(-1, lengths["min"])

    def _numbers(self, name: str, column: Any) -> npt.NDArray[np.float32]:
        if column.null_count:
            raise InputError(f"{self.name}: column {name!r} has missing values; features must be finite")
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused in words later
            return np.asarray(column).astype(np.float32, copy=False)

    def feature_blocks(self) -> Iterator[tuple[pa.Table, npt.NDArray[np.float32]]]:
        """The other columns and the features of the rows, block by block."""
        names = [FEATURES] if self.feature_columns is None else list(self.feature_columns)
        width = None
        for block in self.blocks([*self.other_columns, *names]):
            features = self.features_in(block)
            if width not in (None, features.shape[1]):
                raise InputError(f"{self.name}: every row of 'features' must be a list of the same length")
            width = features.shape[1]
            yield block.drop_columns(names), features

    def read_features(self) -> tuple[pa.Table, npt.NDArray[np.float32]]:
        """All rows: the other columns, and one array of features."""
        features: npt.NDArray[np.float32] | None = None
        others, first = [], 0
        for block, part in self.feature_blocks():
            if features is None:
                shape = (self.n_rows, part.shape[1])
                check_memory(
                    4 * shape[0] * shape[1], f"{self.name}: reading it", "use .npy, which is read in parts"
                )
                features = np.empty(shape, dtype=np.float32)
            features[first : first + len(part)] = part
            first += len(part)
            others.append(block)
        if features is None:
            raise InputError(f"{self.name} has no rows; its columns are {', '.join(self.schema.names) or 'none'}")
        return pa.concat_tables(others), features


def _blocks_of(fragment: ds.Fragment, schema: pa.Schema, columns: list[str], n_rows: int) -> Iterator[pa.Table]:
    """The rows of one file. A file's own reader takes a fraction of the time and memory of a data set's."""
    if not isinstance(fragment, ds.ParquetFileFragment):
        for batch in fragment.to_batches(columns=columns, batch_size=n_rows):
            yield pa.Table.from_batches([batch])
        return
    by_folder = ds.get_partition_keys(fragment.partition_expression)  # year=2026
    is_local = isinstance(fragment.filesystem, pa_fs.LocalFileSystem)
    with pa.memory_map(fragment.path) if is_local else fragment.open() as file:
        reader = pq.ParquetFile(file)
        in_file = reader.schema_arrow.names
        for batch in reader.iter_batches(n_rows, columns=[name for name in columns if name in in_file]):
            block = pa.Table.from_batches([batch])
            for name in columns:
                if name not in in_file:
                    value = pa.scalar(by_folder.get(name), schema.field(name).type)
                    block = block.append_column(name, pa.repeat(value, block.num_rows))
            yield block.select(columns)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _dataset(system: pa_fs.FileSystem, path: str, name: str) -> ds.Dataset:
    info = system.get_file_info(path)
    if info.type == pa_fs.FileType.NotFound:
        raise InputError(f"{name} does not exist")
    files = [path]
    if info.type == pa_fs.FileType.Directory:
        entries = system.get_file_info(pa_fs.FileSelector(path, recursive=True))
        files = sorted(
            entry.path
            for entry in entries
            if entry.type == pa_fs.FileType.File
            and entry.size
            and is_parquet(entry.base_name)
            and not any(part.startswith((".", "_")) for part in PurePosixPath(entry.path).relative_to(path).parts)
        )
        if not files:
            raise InputError(f"{name} is a folder without a .parquet file: it cannot be read as a table")
    dataset = ds.dataset(files, format="parquet", filesystem=system, partitioning="hive")
    first: pa.Schema | None = None
    for fragment in dataset.get_fragments() if len(files) > 1 else ():
        schema = fragment.physical_schema
        if first is not None and not schema.equals(first):
            odd = next(
                (
                    field.name
                    for field in schema
                    if field.name not in first.names or first.field(field.name) != field
                ),
                next((column for column in first.names if column not in schema.names), "the order"),
            )
            raise InputError(f"{name}: {fragment.path} has other columns than the first file ({odd} differs)")
        first = schema if first is None else first
    return dataset
