"""Files at addresses that pyarrow's file systems know: `s3://bucket/features.parquet`, `gs://…`."""

import shutil
from pathlib import Path

import pyarrow.fs as pa_fs

from newkinds.data.files import UNREADABLE, checked
from newkinds.errors import InputError


def remote_file(address: str) -> tuple[pa_fs.FileSystem, str]:
    """The file system of an address, and the path in it."""
    try:
        system, path = pa_fs.FileSystem.from_uri(address)
    except UNREADABLE as error:
        raise InputError(f"{address} is not an address that can be read or written: {error}") from error
    return system, path


def check_remote_target(address: str, overwrite: bool) -> None:
    """Refuse an address at which something is already, unless it may be replaced."""
    system, path = remote_file(address)
    info = checked(address, "a place to write to", lambda: system.get_file_info(path))
    if info.type == pa_fs.FileType.Directory:
        raise InputError(f"{address} is a folder; name a file in it")
    if info.type != pa_fs.FileType.NotFound and not overwrite:
        raise InputError(f"{address} exists already; use --force to replace it")


def upload(file: Path, address: str) -> None:
    """Copy a finished file to an address."""
    system, path = remote_file(address)

    def copy() -> None:
        with file.open("rb") as source, system.open_output_stream(path) as target:
            shutil.copyfileobj(source, target, 1 << 22)

    checked(address, "a place to write to", copy)
