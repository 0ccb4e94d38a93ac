"""Worker processes and teams of threads: what they return, how they begin, and that none is left whatever happens.

What a worker runs is built into Python (`eval`, `exec`), since it is sent there by its name.
"""

import contextlib
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
import torch

from newkinds import InputError
from newkinds.workers import SMALL_WORK, by_pytorch, n_at_work, share_out, worker_processes, working_together

PATIENCE = 120
"""Seconds until processes that do not end are given up."""


def test_results_come_back_in_order_from_other_processes() -> None:
    with worker_processes(2) as pool:
        assert list(pool.map(operator.mul, range(20), range(20))) == [i * i for i in range(20)]
        assert pool.submit(os.getpid).result() != os.getpid()
    assert multiprocessing.active_children() == []


def test_each_process_begins_once_with_the_arguments(tmp_path: Path) -> None:
    diary = tmp_path / "begun"
    begin = f"import os, time; open({str(diary)!r}, 'a').write(f'{{os.getpid()}}\\n')"
    # Both wait until two have begun, so that both processes work.
    work = f"[__import__('time').sleep(0.01) for _ in iter(lambda: len(list(open({str(diary)!r}))) >= 2, True)]"
    with worker_processes(2, exec, (begin,)) as pool:
        for waiting in [pool.submit(eval, work) for _ in range(2)]:
            waiting.result()
        workers = {pool.submit(os.getpid).result() for _ in range(6)}
    begun = [int(line) for line in diary.read_text().split()]
    assert len(begun) == len(set(begun)) == 2
    assert workers <= set(begun)


def test_an_error_in_the_work_is_raised_and_no_process_is_left() -> None:
    with pytest.raises(ValueError, match="invalid literal"), worker_processes(2) as pool:
        pool.submit(int, "many").result()
    assert multiprocessing.active_children() == []


def test_an_error_in_the_block_gives_up_what_is_being_done(tmp_path: Path) -> None:
    begun, done = tmp_path / "begun", tmp_path / "done"
    work = f"(open({str(begun)!r}, 'w').close(), __import__('time').sleep(20), open({str(done)!r}, 'w').close())"
    results: list[Future[object]] = []

    def interrupted() -> None:
        with worker_processes(1) as pool:
            results.extend(pool.submit(eval, work) for _ in range(2))
            while not begun.exists():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert multiprocessing.active_children() == []
    assert all(result.done() for result in results)  # nobody waits for them
    assert not done.exists()


def test_other_processes_of_the_program_are_left_alone() -> None:
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    other.start()
    try:
        with pytest.raises(ZeroDivisionError), worker_processes(1) as pool:
            pool.submit(operator.truediv, 1, 0).result()
        other.join(0.3)
        assert other.exitcode is None
    finally:
        other.kill()
        other.join()


def test_a_worker_that_dies_is_an_input_error_that_says_what_to_do() -> None:
    says = r"a worker process ended, most likely for want of memory; ask for fewer workers, or none"
    with pytest.raises(InputError, match=says), worker_processes(1) as pool:
        pool.submit(os._exit, 3).result()
    assert multiprocessing.active_children() == []


def test_other_processes_of_the_program_know_its_main_module_while_workers_start(tmp_path: Path) -> None:
    """One that a thread starts at the same time does the work of a function in the script."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing, os, threading
            from newkinds.workers import worker_processes

            def work():
                os.write(1, b"done\\n")

            def start_others():
                for _ in range(3):
                    process = multiprocessing.get_context("spawn").Process(target=work)
                    process.start()
                    process.join()

            if __name__ == "__main__":
                thread = threading.Thread(target=start_others)
                thread.start()
                while thread.is_alive():
                    with worker_processes(1) as pool:
                        assert pool.submit(abs, -2).result() == 2
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "done\n" * 3), done.stderr


def test_an_interruption_is_left_to_the_parent() -> None:
    interrupt = f"__import__('os').kill(__import__('os').getpid(), {int(signal.SIGINT)}) or 'still here'"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    try:
        with worker_processes(1) as pool:
            work = pool.submit(eval, interrupt)
            assert work.exception() is None
            assert work.result() == "still here"
    finally:
        signal.signal(signal.SIGINT, before)


PARENT = r"""
    import signal, time
    from newkinds.workers import worker_processes

    signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    with worker_processes(2, exec, ("import os; os.write(1, b'%d\\n' % os.getpid())",)) as pool:
        for work in [pool.submit(time.sleep, 600) for _ in range(2)]:
            work.result()
"""
"""A plain script, which its workers must not run anew."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(number: signal.Signals, tmp_path: Path) -> None:
    """Workers share their parent's output: it ends when the last of them has."""
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(PARENT))
    parent = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert parent.stdout is not None
        workers = {int(parent.stdout.readline()) for _ in range(2)}
        assert len(workers - {parent.pid}) == 2
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)  # as the terminal does
        else:
            os.kill(parent.pid, number)
        _, errors = parent.communicate(timeout=PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)  # whatever is left
    assert parent.returncode != 0
    if number == signal.SIGINT:
        assert errors.splitlines()[-1] == "KeyboardInterrupt"


def test_workers_that_are_ended_while_they_send_do_not_hold_anybody_up() -> None:
    def leave_while_they_send() -> None:
        with worker_processes(2) as pool:
            # More than a pipe holds: a worker is nearly always in the midst of sending.
            results = [pool.submit(bytes, 3_000_000) for _ in range(20)]
            results[0].result()
            raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            leave_while_they_send()
    assert not multiprocessing.active_children()


LARGE = SMALL_WORK + 1


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3  # whatever happened
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_a_team_works_side_by_side_and_answers_in_order() -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE)  # broken unless three come together

    def meet(number: int) -> tuple[int, int]:
        meeting.wait()
        return number, torch.get_num_threads()

    with working_together(LARGE):
        assert n_at_work() == 3
        assert torch.get_num_threads() == 1
        assert list(share_out(meet, range(9))) == [(number, 1) for number in range(9)]
    assert n_at_work() == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("newkinds")]


@pytest.mark.usefixtures("three_threads")
def test_where_there_is_little_to_share_out_pytorch_does_it() -> None:
    with working_together(LARGE):
        assert list(share_out(lambda _: (torch.get_num_threads(), n_at_work()), range(1))) == [(3, 1)]
        assert list(share_out(lambda _: torch.get_num_threads(), range(2))) == [1, 1]
        assert (torch.get_num_threads(), n_at_work()) == (1, 3)


@pytest.mark.usefixtures("three_threads")
def test_no_team_for_small_work_nor_for_a_gpu_nor_within_another() -> None:
    with working_together(SMALL_WORK):
        assert (n_at_work(), torch.get_num_threads()) == (1, 1)
    with working_together(LARGE, "cuda"):
        assert (n_at_work(), torch.get_num_threads()) == (1, 3)
    with working_together(LARGE), working_together(SMALL_WORK):
        assert n_at_work() == 3
    with working_together(LARGE), by_pytorch():
        assert (n_at_work(), torch.get_num_threads()) == (1, 3)


@pytest.mark.usefixtures("three_threads")
def test_after_an_error_in_a_team_nothing_goes_on() -> None:
    at_work = 0

    def fail(number: int) -> None:
        nonlocal at_work
        at_work += 1
        if number == 0:
            raise ZeroDivisionError
        time.sleep(0.05)
        at_work -= 1

    with working_together(LARGE):
        with pytest.raises(ZeroDivisionError):
            list(share_out(fail, range(20)))
        assert at_work == 1  # the one that failed
