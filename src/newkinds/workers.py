"""Work beside other work on this machine: processes, and threads."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from multiprocessing import spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar, cast

from newkinds.errors import InputError

SMALL_WORK = 1 << 17
"""Numbers in the features of a problem on which a second thread gains nothing."""

FEW = 2
"""Times as many threads as pieces of work from which on PyTorch's own threads are faster."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Team:
    """Threads that share work among them, in each of which PyTorch uses no further ones.

    PyTorch's own threads meet after every operation and spin while they wait. Beside another program that keeps the
    cores busy they wait most of the time. A team meets once in many operations, and sleeps meanwhile.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool = ThreadPoolExecutor(n, thread_name_prefix="newkinds", initializer=_compute_alone)

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results for all items, in their order; few more than are at work exist at a time."""
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > self.n:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error nothing may go on writing
            for future in waiting:
                if not future.cancel():
                    future.exception()

    def end(self) -> None:
        self._pool.shutdown()


_team: ContextVar[Team | None] = ContextVar("newkinds_team", default=None)


@contextmanager
def working_together(n_elements: int, device: str = "cpu") -> Iterator[None]:
    """Inside the block, `share_out` shares work among as many threads as PyTorch had before; those of its own rest.

    Small work is done by one thread. Blocks within such a block change nothing, nor does one for another device.
    """
    import torch

    before = torch.get_num_threads()
    if before == 1 or device != "cpu":
        yield
        return
    team = Team(before) if n_elements > SMALL_WORK else None
    token = _team.set(team)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _team.reset(token)
        if team is not None:
            team.end()
        torch.set_num_threads(before)


@contextmanager
def by_pytorch() -> Iterator[None]:
    """Give PyTorch its threads back for this block: for work that only it can share."""
    import torch

    team = _team.get()
    if team is None:
        yield
        return
    token = _team.set(None)
    torch.set_num_threads(team.n)
    try:
        yield
    finally:
        torch.set_num_threads(1)
        _team.reset(token)


def n_at_work() -> int:
    """Threads that `share_out` shares work among."""
    team = _team.get()
    return 1 if team is None else team.n


def share_out(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The results for all items, in their order, by the team at work; without one, by this thread.

    Where most of the team would have nothing to do, PyTorch's own threads take its place.

    Examples
    --------
    >>> with working_together(n_elements=1 << 20):
    ...     list(share_out(str.upper, "abc"))
    ['A', 'B', 'C']
    """
    team = _team.get()
    if team is None:
        yield from map(work, items)
    elif FEW * len(items) < team.n:
        with by_pytorch():
            results = list(map(work, items))
        yield from results
    else:
        yield from team.each(work, items)


class _Worker(SpawnProcess):
    """A new interpreter that does not import the program's main module.

    Python's own do, and so run a script anew that does not begin its work below `if __name__ == "__main__":`.
    """

    _starting = threading.Lock()

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        def facts_without_main(name: str) -> dict[str, Any]:
            facts = all_facts(name)
            if name == process_obj.name:  # not for a process that another thread of the program starts meanwhile
                facts = {key: fact for key, fact in facts.items() if not key.startswith("init_main_from")}
            return facts

        with _Worker._starting:
            all_facts = spawn.get_preparation_data
            spawn.get_preparation_data = facts_without_main
            try:
                return SpawnProcess._Popen(process_obj)
            finally:
                spawn.get_preparation_data = all_facts


class _WorkerContext(SpawnContext):
    Process = _Worker


@contextmanager
def worker_processes(
    n: int, begin: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[Executor]:
    """A pool of processes to submit work to. An error in the block ends them at once, whatever they are doing.

    Parameters
    ----------
    n : int
    begin : callable, optional
        Called once in each process, before any work.
    arguments : tuple
        Arguments of `begin`.
    """
    children_before = set(multiprocessing.active_children())
    # New interpreters: copies of this one would inherit PyTorch's threads and locks.
    pool = ProcessPoolExecutor(n, _WorkerContext(), initializer=_serve, initargs=(begin, arguments))
    try:
        yield pool
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - children_before:
            process.terminate()
        _end_results(pool)
        if isinstance(error, BrokenProcessPool):
            raise InputError(
                "a worker process ended, most likely for want of memory; ask for fewer workers, or none"
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def can_be_sent(work: Callable[..., Any]) -> bool:
    """Whether a worker process can do some work: that can be pickled, and not by a name in the main module.

    Examples
    --------
    >>> can_be_sent(str.upper), can_be_sent(lambda text: text)
    (True, False)
    """
    try:
        return b"__main__" not in pickle.dumps(work)
    except Exception:  # it depends on the object what goes wrong
        return False


@contextmanager
def worker_threads(n: int) -> Iterator[Executor]:
    """A pool of threads to submit work to. What none of them has begun when the block ends is left undone."""
    pool = ThreadPoolExecutor(n)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _end_results(pool: ProcessPoolExecutor) -> None:
    """Close our end of the pipe through which results come.

    A worker that is ended while it sends one leaves half of it in the pipe. The pool would wait for the other half
    for ever, since as long as we hold the pipe open somebody might still send it.
    """
    results: Any = getattr(pool, "_result_queue", None)  # private, but there in every version so far
    if results is not None:
        with suppress(OSError):
            results._writer.close()


def _serve(begin: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    """Begin a worker: it leaves interruptions to its parent, and ends when the parent ends, for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*arguments)


def one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; while one is worked on, a thread fetches the next.

    Examples
    --------
    >>> list(one_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end = object()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, items, end)
            yield cast(Item, item)


def by_threads(work: Callable[[Item], Result], items: Iterator[Item], n: int) -> Iterator[Result]:
    """The results for all items, in their order, by so many threads. One gives each before it fetches the next.

    Examples
    --------
    >>> list(by_threads(str.upper, iter("abc"), 2))
    ['A', 'B', 'C']
    """
    if n == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(n, initializer=_compute_alone) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > n:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _compute_alone() -> None:
    """Let PyTorch use no further threads within this one: those would wait for each other."""
    import torch

    torch.set_num_threads(1)
