"""Where and how things run: device, processes, and a way to follow long work.

Randomness is always an argument: a `random_state` seeds local generators. Where PyTorch draws from its global ones
they are put back as they were (`seeded`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from newkinds.errors import InputError
from newkinds.names import DeviceName

if TYPE_CHECKING:
    import torch

Listener = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done and the steps in all. What comes after a colon in the name says
what is done just now; it changes."""

GROUP_FILES = ("memory.max", "memory.current", "inactive_file")
"""Files of a control group: its limit, what it uses, and the line of memory.stat for caches that can be dropped."""
OLD_GROUP_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
"""The same in the first version of control groups."""

_joined = False
"""Whether this process has joined others."""
_n_joins = 0
"""How often it has done so."""
_listener: ContextVar[Listener | None] = ContextVar("newkinds_progress_listener", default=None)


def resolve_device(device: str) -> "torch.device":
    """The torch device that a `device` parameter names, or InputError where this machine lacks it.

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    import torch  # here, so that following progress does not need it

    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if device == "auto":
        # Not mps: its float32 products have not been checked against the CPU's here.
        return torch.device("cuda" if available["cuda"] else "cpu")
    kind = device.partition(":")[0]
    if kind not in available:
        raise InputError(f"device must be one of {', '.join(get_args(DeviceName))}; got {device!r}")
    if not available[kind]:
        raise InputError(f"device={device!r} was asked for but this machine has none; try device='auto'")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device={device!r} is not the name of a device, such as 'cuda' or 'cuda:0'") from error
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if (resolved.index or 0) >= count:
        raise InputError(f"device={device!r} was asked for but there are only {count} of its kind")
    return resolved


def on_device(device: "torch.device") -> AbstractContextManager[object]:
    """Make a GPU the current one for this block: kernels, streams and graphs take that for granted."""
    import torch

    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def seeded(seed: int, device: "torch.device") -> Iterator[None]:
    """Seed PyTorch's global generators, on the CPU and the device, for this block; put them back after it."""
    import torch

    accelerator: Any = {"cuda": torch.cuda, "mps": torch.mps}.get(device.type)
    with on_device(device):
        before = torch.get_rng_state(), accelerator and accelerator.get_rng_state()
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach every device
        if accelerator:
            accelerator.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(before[0])
            if accelerator:
                accelerator.set_rng_state(before[1])


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send the progress of everything run inside the `with` block to `listener`.

    Examples
    --------
    >>> with listening(lambda stage, done, total: print(stage, done, total)):
    ...     report_progress("training", 1, 2)
    training 1 2
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """Whoever listens here, if anybody does."""
    return _listener.get()


def report_progress(stage: str, done: int, total: int) -> None:
    """Tell whoever listens how far a stage has come; costs next to nothing when nobody does."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


# Several processes. Everything below is correct with one, so that the maths never branches on the set-up.


@contextmanager
def processes(device: str) -> Iterator[str]:
    """Join the other processes where `torchrun` started several, and leave them when the block ends.

    Yields the device that this process should use: where a machine has several GPUs, each process has its own.
    """
    count = n_started()
    if count == 1:
        yield device
        return
    global _joined, _n_joins
    import torch
    from torch import distributed
    from torch.distributed.rendezvous import rendezvous

    kind = resolve_device(device)
    if kind.type == "cuda":
        local_rank, n_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if kind.index is not None or local_rank >= n_gpus:
            raise InputError(
                f"device={device!r} with {count} processes: each takes a GPU of its own, and this machine has "
                f"{n_gpus}; start no more processes a machine than that and ask for 'cuda', or for 'cpu'"
            )
        kind = torch.device("cuda", local_rank)
        torch.cuda.set_device(kind)
    try:
        store, global_rank, size = next(rendezvous("env://"))
    except ValueError as error:  # RANK or the address of the first process is not set
        raise InputError(
            f"WORLD_SIZE={count} asks for {count} processes: start them by torchrun ({error})"
        ) from error
    # Neither those that torchrun has restarted nor those that join again may find the addresses of before.
    attempt = f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}, {_n_joins}"
    _n_joins += 1
    store = torch.distributed.distributed_c10d.PrefixStore(attempt, store)
    backend = "nccl" if kind.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=global_rank, world_size=size)
    _joined = True
    try:
        yield str(kind)
        distributed.barrier()  # nobody leaves while others may still talk to them
    finally:
        _joined = False
        distributed.destroy_process_group()
        del store  # its connection must close before Python ends


def n_started() -> int:
    """How many processes `torchrun` started, joined or not; 1 without it."""
    count = os.environ.get("WORLD_SIZE", "1")
    if not count.isdecimal() or int(count) < 1:
        raise InputError(f"WORLD_SIZE must be the number of processes; got {count!r}")
    return int(count)


def n_cores() -> int:
    """Cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # only Linux has it
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def in_bytes(amount: int) -> str:
    """An amount of memory as people read it.

    Examples
    --------
    >>> in_bytes(40_004_000_100), in_bytes(1_500_000)
    ('40.0 GB', '1.5 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if amount >= size:
            return f"{amount / size:,.1f} {unit}"
    return f"{amount:,} bytes"


def available_memory() -> int | None:
    """Bytes of main memory that this process can still get, also within a container; None where nobody says."""
    amounts = [_free_memory(), _group_memory()]
    return min((amount for amount in amounts if amount is not None), default=None)


def _free_memory() -> int | None:
    """What the machine has left."""
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):  # not Linux
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return None


def _group_memory(groups: Path = Path("/sys/fs/cgroup"), process: Path = Path("/proc/self/cgroup")) -> int | None:
    """What is left of the limit of this process's control group, such as a container's; caches count as free."""
    try:
        lines = [line.split(":", 2)[1:] for line in process.read_text("utf-8").splitlines()]
    except OSError:
        return None
    paths = {controllers: path.strip("/") for controllers, path in lines}
    places = [  # a container sees its own group as the outermost
        *((groups / path, GROUP_FILES) for path in dict.fromkeys((paths.get("", ""), ""))),
        *((groups / "memory" / path, OLD_GROUP_FILES) for path in dict.fromkeys((paths.get("memory", ""), ""))),
    ]
    for folder, (limit_file, used_file, cached) in places:
        try:
            limit, used = (int((folder / name).read_text("ascii")) for name in (limit_file, used_file))
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines())
            return max(0, limit - used + int(statistics.get(cached, 0)))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
    return None


def check_memory(needed: int, work: str, advice: str) -> None:
    """Refuse work that takes more main memory than there is, before it is asked for.

    Parameters
    ----------
    needed : int
        Bytes, about.
    work : str
        What needs them: "k-means with 100 categories".
    advice : str
        What to do instead.
    """
    available = available_memory()
    if available is not None and needed > available:
        raise InputError(
            f"{work} takes about {in_bytes(needed)} of memory, and {in_bytes(available)} are free; {advice}"
        )


def rank() -> int:
    """Number of this process, from 0."""
    return _distributed().get_rank() if n_processes() > 1 else 0


def n_processes() -> int:
    """How many processes work together: those that `processes` joined, not others that the program started."""
    return _distributed().get_world_size() if _joined else 1


def sum_over_processes(values: "torch.Tensor") -> "torch.Tensor":
    """Sum of every process's `values`, in place, with the same bits everywhere.

    An ordinary all-reduce may add in another order on each process, and decisions that follow from the sums, such
    as whether a step is accepted, could differ. So the first process adds and tells the others.
    """
    if n_processes() > 1:
        _distributed().reduce(values, dst=0)
        _distributed().broadcast(values, src=0)
    return values


def least_over_processes(value: int) -> int:
    """The smallest `value` of all processes: what every one of them can do, where all must do the same."""
    if n_processes() == 1:
        return value
    import torch

    device = "cuda" if _distributed().get_backend() == "nccl" else "cpu"
    agreed = torch.tensor([value], device=device)
    _distributed().all_reduce(agreed, op=_distributed().ReduceOp.MIN)
    return int(agreed)


def _distributed() -> Any:
    from torch import distributed

    return distributed
