"""Other processes of this machine that compute for this one."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from newkinds.errors import InputError


@contextmanager
def worker_processes(
    n: int, begin: Callable[..., None] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[Executor]:
    """Processes to submit work to; when the block is left by an error, what they are at is given up.

    Parameters
    ----------
    n : int
    begin : callable, optional
        Called first in each of them.
    arguments : tuple
        For `begin`; sent once to each.
    """
    others = set(multiprocessing.active_children())
    # A new interpreter for each: a copy of this one would inherit PyTorch's threads and locks.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n, context, initializer=_serve, initargs=(begin, arguments))
    try:
        yield pool
    except BaseException as error:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise InputError(
                "a worker process ended: there is too little memory, or this is a script that does not begin its "
                'work below `if __name__ == "__main__":`; ask for fewer workers, or none'
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _serve(begin: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    """In a worker: leave an interruption to the process that is served, and end when that does, however it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    served = multiprocessing.parent_process()
    assert served is not None

    def watch() -> None:
        multiprocessing.connection.wait([served.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if begin is not None:
        begin(*arguments)
