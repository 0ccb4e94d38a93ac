"""Putting files and folders in their place: whole or not at all, and never over somebody else's work.

What a command writes is made in a workshop beside its place, a hidden folder `.NAME.partial-HOST-PID-…`, and put in
place when it is finished and on the disk. Whenever the power fails, the place holds the old or the new, whole. What
a dead command left in its workshop is removed by the next command for the same place.

What may be replaced is asked twice, before the work and after it: hours may lie between. If something has appeared
meanwhile that may not be replaced, it stays, and the result goes to a free name beside it.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from newkinds.errors import InputError
from newkinds.runtime import n_started
from newkinds.wording import option

try:
    import fcntl
except ImportError:  # Windows: places are not claimed there
    fcntl = None  # type: ignore[assignment]  # its absence is checked where it is used


class PlaceTaken(InputError):
    """Another command is writing to a place; it will be free again."""


Check = Callable[[Path], None]
"""Raises an `InputError` if what is at a path may not be replaced."""

PARTIAL, CLAIM, OLD = ".partial-", ".claim", "replaced"
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
"""Flags of Linux's renameat2."""
AT_CWD = -100
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What a system or a file system answers that has no such rename."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""What a disk answers that takes no more; such an error does not name the file."""
FREE_NAMES = 1000

_workshops: set[Path] = set()
"""Where this process is at work."""
_claims: ContextVar[frozenset[Path]] = ContextVar("newkinds_claims", default=frozenset())


def refuse_existing(target: Path) -> None:
    """Refuse a place where something is."""
    if os.path.lexists(target):
        overwriting = option("overwrite=True", "--force")
        raise InputError(f"{target} already exists; choose another place, or replace it with {overwriting}")


def accept_existing(target: Path) -> None:
    """Let the new take the place of the old: for files that are the program's own."""


def check_place(target: Path) -> None:
    """Refuse a place that no file or folder of ours may take: a link, a device, a pipe, a name that cannot be."""
    try:
        os.fsencode(target)
        if "\0" in str(target):
            raise ValueError("it holds a NUL character")
    except ValueError as error:
        raise InputError(f"no file can be called {str(target)!r}: {error}") from error
    if target.name in ("", ".."):
        raise InputError(f"{target} cannot be written to; give the name of a file or folder to make")
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"cannot write to {target}: {error.strerror or error}") from error
    if stat.S_ISLNK(mode):
        raise InputError(f"{target} is a link; give the place itself")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise InputError(f"{target} is neither a file nor a folder; choose another place")


def check_not_read(target: Path, *sources: str | Path | None) -> None:
    """Refuse a place that is one of the files or folders that are read."""
    for source in sources:
        try:
            is_same = source is not None and os.path.samefile(target, source)
        except (OSError, ValueError):  # one of them is not there, or no path at all
            is_same = False
        if is_same:
            raise InputError(f"{target} is what is read; choose another place")


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Hold a place until the block ends: another command for it is refused at its start, not after its work."""
    target = target.absolute()
    if target in _claims.get():
        yield
        return
    check_place(target)
    path = target.with_name(f".{target.name}{CLAIM}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _lock(path, target)
    except OSError as error:
        raise InputError(f"cannot write to {target.parent}: {error.strerror or error}") from error
    token = _claims.set(_claims.get() | {target})
    try:
        yield
    finally:
        _claims.reset(token)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(descriptor)


@contextmanager
def staged(
    target: Path, *, folder: bool = False, replace: Check = refuse_existing, ours: Collection[str] = ()
) -> Iterator[Path]:
    """Give a place beside `target` to write to, and put it in `target`'s place when the block has ended well.

    If the block fails, what was written is removed and what was there stays.

    Parameters
    ----------
    target : path
    folder : bool
        Whether a folder is made; it is there when the block begins.
    replace : callable
        Called with `target` before the block and after it, if something is there: raises an `InputError` if that
        may not be replaced.
    ours : collection of str
        For a folder that replaces another: the names of what we write. Everything else in the old one stays.
    """
    target = target.absolute()
    is_own = replace is accept_existing  # then whoever comes last may win
    with contextlib.nullcontext() if is_own else claimed(target):
        _check(target, folder, replace)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(target, is_claimed=not is_own)
            workshop = Path(tempfile.mkdtemp(prefix=_partial_name(target), dir=target.parent))
        except OSError as error:
            raise InputError(f"cannot write to {target.parent}: {error.strerror or error}") from error
        stage = workshop / target.name
        _workshops.add(workshop)
        try:
            if folder:
                stage.mkdir()
            yield stage
            _sync(stage)
            _put(stage, target, folder, replace, ours)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise InputError(f"cannot write {target}: {error.strerror}; nothing was changed there") from error
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
            _workshops.discard(workshop)


def discard(target: Path) -> None:
    """Remove a folder of our own that is no longer needed, and what killed commands left beside it."""
    target = target.absolute()
    shutil.rmtree(target, ignore_errors=True)
    _remove_leftovers(target, is_claimed=False)


def check_target(target: Path, *, folder: bool, replace: Check = refuse_existing) -> None:
    """Refuse a place that `staged` would refuse: to be asked before long work."""
    target = target.absolute()
    check_place(target)
    _tidy(target)
    _check(target, folder, replace)


def _check(target: Path, folder: bool, replace: Check) -> None:
    check_place(target)
    if not os.path.lexists(target):
        return
    if target.is_dir() != folder:
        kind = "a folder; give the name of a file" if target.is_dir() else "a file; choose another place"
        raise InputError(f"{target} is {kind}")
    if folder and Path.cwd().is_relative_to(target.resolve()):
        raise InputError(f"{target} is the folder you are in, or holds it; choose another place")
    replace(target)


def _put(stage: Path, target: Path, folder: bool, replace: Check, ours: Collection[str]) -> None:
    """Move what is finished into its place, in one step where the system can."""
    try:
        _check(target, folder, replace)
        if not os.path.lexists(target):
            rename_to_free(stage, target)
        elif folder:
            _keep_foreign(target, stage, ours)
            _exchange(stage, target)
        else:
            os.replace(stage, target)
    except (InputError, FileExistsError) as error:
        elsewhere = _put_elsewhere(stage, target)
        reason = str(error) if isinstance(error, InputError) else f"{target} appeared meanwhile and was left alone"
        raise InputError(f"{reason}. The result is in {elsewhere}") from error
    sync_folder(target.parent)


def _put_elsewhere(stage: Path, target: Path) -> Path:
    """A free name beside a place that was taken while we worked: the work is not lost."""
    for number in range(2, FREE_NAMES):
        elsewhere = target.with_name(f"{target.stem}-{number}{target.suffix}")
        with contextlib.suppress(FileExistsError):
            rename_to_free(stage, elsewhere)
            sync_folder(elsewhere.parent)
            return elsewhere
    raise InputError(f"there is no free name beside {target}")


def _keep_foreign(old: Path, stage: Path, ours: Collection[str]) -> None:
    """What somebody else put into a folder of ours moves along: linked, so that it exists at every moment."""
    for entry in old.iterdir():
        if entry.name not in ours and not os.path.lexists(stage / entry.name):
            if entry.is_dir() and not entry.is_symlink():
                shutil.copytree(entry, stage / entry.name, symlinks=True, copy_function=_link)
            else:
                _link(str(entry), str(stage / entry.name))
    _sync(stage)


def _link(source: str, copy: str) -> str:
    try:
        os.link(source, copy, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(source, copy, follow_symlinks=False)
    return copy


def _partial_name(target: Path) -> str:
    return f".{target.name}{PARTIAL}{_host()}-{os.getpid()}-"


def _host() -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in socket.gethostname()) or "_"


def _remove_leftovers(target: Path, is_claimed: bool) -> None:
    """Remove what commands for this place left on this machine when they were killed.

    Where the place is claimed no other command is at work; otherwise those that live are left alone.
    """
    beginning = f".{target.name}{PARTIAL}{_host()}-"
    for workshop in [path for path in _entries(target.parent) if path.name.startswith(beginning)]:
        if workshop in _workshops:
            continue
        process = workshop.name.removeprefix(beginning).partition("-")[0]
        if not (is_claimed and fcntl) and process.isdigit() and _is_alive(int(process)):
            continue
        old = workshop / OLD
        if os.path.lexists(old) and not os.path.lexists(target):
            os.rename(old, target)
        shutil.rmtree(workshop, ignore_errors=True)


def _tidy(target: Path) -> None:
    """Remove what a killed command for this place left, unless another is at work there."""
    beginning = f".{target.name}"
    left = [
        path for path in _entries(target.parent) if path.name.startswith((beginning + PARTIAL, beginning + CLAIM))
    ]
    if left and target not in _claims.get() and n_started() == 1:
        with contextlib.suppress(InputError), claimed(target):
            _remove_leftovers(target, is_claimed=True)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _lock(path: Path, target: Path) -> int | None:
    """A claim as a locked file; the system lifts the lock of a process that dies."""
    if fcntl is None:
        return None
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except BlockingIOError:
            process = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise PlaceTaken(
                f"another command is writing to {target} (process {process}); wait for it, or choose another place"
            ) from None
        except FileNotFoundError:  # whoever held it has just let it go
            pass
        except OSError:  # a file system without locks: nothing is claimed
            os.close(descriptor)
            return None
        os.close(descriptor)


def rename_to_free(stage: Path, target: Path) -> None:
    """Rename, or raise `FileExistsError` where something is."""
    if _renameat2(stage, target, RENAME_NOREPLACE):
        return
    if not stage.is_dir():
        try:
            os.link(stage, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (*UNSUPPORTED, errno.EPERM):  # what file systems without links answer
                raise
        else:
            stage.unlink()
            return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    os.rename(stage, target)


def _exchange(stage: Path, target: Path) -> None:
    """Swap two folders; the old one is then in the workshop."""
    if _renameat2(stage, target, RENAME_EXCHANGE):
        return
    old = stage.parent / OLD
    os.rename(target, old)  # killed here, the next command for the place puts it back
    try:
        os.rename(stage, target)
    except BaseException:
        os.rename(old, target)
        raise


def _renameat2(source: Path, target: Path, flag: int) -> bool:
    """Linux's rename with a flag; False where there is none."""
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    if library.renameat2(AT_CWD, os.fsencode(source), AT_CWD, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(target))


def give_usual_mode(path: Path) -> None:
    """The permissions that a new file has, whoever wrote it: safetensors' files are their owner's alone."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def _sync(stage: Path) -> None:
    """Bring a file, or everything in a folder, onto the disk, with the permissions that new files have."""
    if not stage.is_dir():
        _sync_file(stage)
        return
    for folder, _, files in os.walk(stage):
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink() and path.stat().st_nlink == 1:  # one with more is somebody else's, kept
                _sync_file(path)
        sync_folder(Path(folder))


def _sync_file(path: Path) -> None:
    give_usual_mode(path)
    bring_to_disk(path)


def bring_to_disk(path: Path) -> None:
    """Return when a file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Return when the names of a folder's files are on the disk."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in UNSUPPORTED:  # some file systems cannot
            raise
    finally:
        os.close(descriptor)
