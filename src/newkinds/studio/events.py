"""What happens in a studio, told to every page that is open (server-sent events)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from newkinds.studio.jobs import Jobs
from newkinds.studio.live_run import LiveRun

HEARTBEAT = 10.0
"""Seconds after which a line is sent even though nothing happened: so that a lost connection is noticed."""
LONGEST_QUEUE = 100
"""Events that wait for a page that is slow; after more it is told to load everything anew."""


class Events:
    """The pages that listen to a run.

    Threads tell; the event loop sends.
    """

    def __init__(self, live: LiveRun, jobs: Jobs) -> None:
        self._live, self._jobs = live, jobs
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], None] | None = None

    @property
    def n_pages(self) -> int:
        return len(self._queues)

    def start(self) -> None:
        """Begin, in the event loop of the server."""
        self._loop = asyncio.get_running_loop()
        self._stop = self._live.listen(self._tell)

    def close(self) -> None:
        """End every stream; may be called from a signal handler or another thread."""
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for queue in self._queues:
            queue.put_nowait(None)

    async def stream(self) -> AsyncIterator[str]:
        """The events for one page, from now on. The first says which state it is."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield formatted("hello", {"n": self._live.n, "job": self._jobs.shown})
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    event = formatted("beat", {"n": self._live.n})
                if event is None:
                    return
                yield event
        finally:
            self._queues.discard(queue)

    def _tell(self, event: str, content: dict[str, Any]) -> None:
        text = formatted(event, content)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._send, text)

    def _send(self, text: str) -> None:
        for queue in self._queues:
            if queue.qsize() > LONGEST_QUEUE:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(formatted("hello", {"n": self._live.n, "job": self._jobs.shown}))
            queue.put_nowait(text)


def formatted(event: str, content: dict[str, Any]) -> str:
    """An event as it is sent; JSON has no line breaks."""
    return f"event: {event}\ndata: {json.dumps(content, ensure_ascii=True, allow_nan=False)}\n\n"
