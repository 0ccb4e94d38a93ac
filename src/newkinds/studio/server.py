"""Starting a studio: one server for a run, its address with the token, and its end."""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newkinds.errors import InputError
from newkinds.run_folder import read_record
from newkinds.studio.security import Guard, allowed_hosts, is_loopback, new_token

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from newkinds.studio.events import Events
    from newkinds.studio.jobs import Jobs
    from newkinds.studio.live_run import LiveRun

try:
    import fcntl
except ImportError:  # Windows: a second studio is not noticed there
    fcntl = None  # type: ignore[assignment]  # its absence is checked where it is used

LOCK = ".studio"
LOOKS = 0.5
"""Seconds between two looks at what others have written into the journal."""
QUEUE = 128
"""Connections that wait to be accepted."""
REMOTE = (
    "{host} can be reached from other machines: whoever has the address with the token sees the samples and can "
    "edit the run, and the connection is not encrypted; if you mean that, give --allow-remote"
)


def serve(
    run: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow_remote: bool = False,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the studio of a run until it is interrupted.

    Parameters
    ----------
    run : path
        A run folder.
    host : str
        The address to listen on.
    port : int
        0 for any that is free.
    allow_remote : bool
        Whether `host` may be one that other machines reach.
    ready : callable
        Called with the address to open, token included.
    """
    with opened(run, host=host, port=port, allow_remote=allow_remote) as studio:
        ready(studio.address)
        studio.run()


@dataclass(frozen=True)
class OpenedStudio:
    """A studio that listens; what asks is answered once it runs.

    Attributes
    ----------
    address : str
        What to open, token included.
    run : callable
        Answers until the studio is interrupted or stopped.
    stop : callable
        Ends it, from another thread.
    """

    address: str
    run: Callable[[], None]
    stop: Callable[[], None]


@contextmanager
def opened(
    run: str | Path, *, host: str = "127.0.0.1", port: int = 0, allow_remote: bool = False
) -> Iterator[OpenedStudio]:
    """Open the studio of a run: see `serve`."""
    uvicorn = need_packages()
    folder = Path(run).resolve()
    read_record(folder)
    if not is_loopback(host) and not allow_remote:
        raise InputError(REMOTE.format(host=host))
    with only_studio(folder), listening(host, port) as place:
        from newkinds.studio.events import Events
        from newkinds.studio.jobs import Jobs
        from newkinds.studio.live_run import LiveRun

        live, token = LiveRun(folder), new_token()
        jobs = Jobs(live)
        events = Events(live, jobs)
        port = place.getsockname()[1]
        app = make_app(live, jobs, events, token, allowed_hosts(host, port), any_address=allow_remote)

        class Server(uvicorn.Server):  # type: ignore[misc, name-defined]  # uvicorn is imported late
            def handle_exit(self, *arguments: Any) -> None:
                events.close()
                super().handle_exit(*arguments)

        config = uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False, timeout_graceful_shutdown=2
        )
        server = Server(config)

        def stop() -> None:
            events.close()
            server.should_exit = True

        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        yield OpenedStudio(f"http://{name}:{port}/?token={token}", lambda: server.run(sockets=[place]), stop)


def make_app(
    live: "LiveRun", jobs: "Jobs", events: "Events", token: str, hosts: list[str], *, any_address: bool = False
) -> "ASGIApp":
    """The studio of a run as an ASGI application, guarded."""
    from starlette.applications import Starlette

    from newkinds.studio.endpoints import Endpoints

    stopped = threading.Event()

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        events.start()
        threads = [threading.Thread(target=work, daemon=True) for work in (watch, live.warm_up)]
        for thread in threads:
            thread.start()
        yield
        stopped.set()
        jobs.end()
        events.close()

    def watch() -> None:
        """What the command line and others do to the run shows on the pages too."""
        while not stopped.wait(LOOKS):
            with contextlib.suppress(InputError, OSError):
                live.refresh()
                jobs.prepare()

    app = Starlette(routes=Endpoints(live, jobs, events).routes(), lifespan=lifespan)
    return Guard(app, token, hosts, any_address=any_address)


def need_packages() -> Any:
    """uvicorn; without it, or without Starlette, InputError says what to install."""
    try:
        import starlette  # noqa: F401 - only to see whether it is there
        import uvicorn
    except ImportError as error:
        raise InputError(
            f"the studio needs a package that is not installed ({error.name}); `pip install 'newkinds[studio]'` "
            "brings it"
        ) from error
    return uvicorn


@contextmanager
def only_studio(folder: Path) -> Iterator[None]:
    """Hold the place of the one studio of a run. The system lets go of it when the process ends, however it ends.

    Other commands may edit the run meanwhile: they hold the run itself, and only while they write.
    """
    if fcntl is None:
        yield
        return
    path = folder.with_name(f".{folder.name}{LOCK}")
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise InputError(f"cannot write to {folder.parent}: {error.strerror or error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 40, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise InputError(
                f"a studio of {folder} is open already (process {owner}): use its page, or end it first"
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                break
        os.close(descriptor)  # another studio has ended just now, and taken the file away
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens; InputError where the address or the port cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((host, port))
            place.listen(QUEUE)
        except (OSError, OverflowError) as error:
            advice = "choose another with --port, or none for any that is free"
            raise InputError(f"cannot listen on {host}, port {port}: {error}; {advice}") from error
        yield place
    finally:
        place.close()
