"""What a studio answers: one function an address."""

import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from typing import Any

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from newkinds.errors import InputError
from newkinds.predictions import WRITERS
from newkinds.run_record import COUNT, Keys
from newkinds.studio.events import Events
from newkinds.studio.jobs import Jobs
from newkinds.studio.live_run import LiveRun
from newkinds.studio.operations import OPERATIONS, Desk, Outdated, checked
from newkinds.studio.pictures import Photos, SmallPictures
from newkinds.studio.review import Review
from newkinds.studio.samples import MOST_ROWS, ORDERS, Samples
from newkinds.studio.security import Refused

logger = logging.getLogger(__name__)

Answer = Callable[[Request], Awaitable[Response]]
ASSETS = {"studio.js": "text/javascript", "studio.css": "text/css"}
LONGEST_QUERY = 200
"""Characters of a search."""


class Endpoints:
    """The addresses of a studio."""

    def __init__(self, live: LiveRun, jobs: Jobs, events: Events) -> None:
        self._live, self._jobs, self._events = live, jobs, events
        self._desk, self._samples = Desk(live, jobs), Samples(live)
        self._review = Review(live, self._desk)
        self._small, self._photos = SmallPictures(live), Photos(live)

    def routes(self) -> list[BaseRoute]:
        """Every address, and what answers there."""
        looks: dict[str, Callable[[Request], Response]] = {
            "/": self._page,
            "/favicon.ico": lambda _: Response(status_code=204),  # browsers ask for one
            "/assets/{name}": self._asset,
            "/api/state": lambda _: JSONResponse({**self._live.state(), "pixelated": self._small.are_tiny()}),
            "/api/points": lambda _: Response(self._live.points(), media_type="application/octet-stream"),
            "/api/samples": self._described,
            "/api/samples/{row:int}": self._details,
            "/api/kinds/samples": self._members,
            "/api/search": self._search,
            "/api/refit": lambda _: JSONResponse({"job": self._jobs.shown}),
            "/api/review": lambda _: JSONResponse(self._review.questions()),
            "/api/export/{form}": self._export,
            "/picture/{row:int}": self._picture,
            "/photo/{row:int}": self._photo,
        }
        asks: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "/api/like": self._like,
            "/api/preview/split": self._desk.preview_split,
            "/api/preview/merge": self._desk.preview_merge,
            "/api/review/answer": self._review.answer,
            "/api/review/skip": self._review.skip,
            "/api/refit/start": lambda _: self._after(self._jobs.start),
            "/api/refit/cancel": lambda _: self._after(self._jobs.cancel),
            "/api/refit/close": lambda _: self._after(self._jobs.close),
        }
        for name in OPERATIONS:
            asks[f"/api/do/{name}"] = partial(self._desk.do, name)
        return [
            *(Route(path, looking(answer), methods=["GET"]) for path, answer in looks.items()),
            *(Route(path, asking(answer), methods=["POST"]) for path, answer in asks.items()),
            Route("/api/events", self._stream, methods=["GET"]),
        ]

    # The page

    def _page(self, _: Request) -> Response:
        return Response((files("newkinds.studio") / "page.html").read_bytes(), media_type="text/html")

    def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return missing()
        return Response((files("newkinds.studio") / "assets" / name).read_bytes(), media_type=ASSETS[name])

    async def _stream(self, _: Request) -> Response:
        return StreamingResponse(self._events.stream(), media_type="text/event-stream")

    # Samples

    def _described(self, request: Request) -> Response:
        rows = [self._row(row) for row in request.query_params.get("rows", "").split(",") if row]
        if len(rows) > MOST_ROWS:
            raise InputError(f"{MOST_ROWS} samples are described at a time; got {len(rows)}")
        return JSONResponse(self._samples.described(rows))

    def _details(self, request: Request) -> Response:
        return JSONResponse(self._samples.details(self._row(request.path_params["row"])))

    def _members(self, request: Request) -> Response:
        order = request.query_params.get("order", ORDERS[0])
        if order not in ORDERS:
            raise InputError(f"order should be one of {', '.join(ORDERS)}; got {order!r}")
        return JSONResponse(self._samples.of_category(request.query_params.get("kind", ""), order, first(request)))

    def _search(self, request: Request) -> Response:
        words = request.query_params.get("words", "")
        if len(words) > LONGEST_QUERY:
            raise InputError(f"a search may have {LONGEST_QUERY} letters; got {len(words)}")
        return JSONResponse(self._samples.found(words, first(request)))

    def _like(self, content: dict[str, Any]) -> dict[str, Any]:
        checked(Keys(optional={"first": COUNT}), content)
        return self._samples.like(self._desk.rows(content), content.get("first", 0))

    def _after(self, act: Callable[[], None]) -> dict[str, Any]:
        act()
        return {"job": self._jobs.shown}

    def _picture(self, request: Request) -> Response:
        picture = self._small.read(self._row(request.path_params["row"]))
        return missing() if picture is None else Response(picture[0], media_type=picture[1])

    def _photo(self, request: Request) -> Response:
        row = self._row(request.path_params["row"])
        photo = self._photos.read(self._samples.id(row))
        return self._picture(request) if photo is None else Response(photo, media_type="image/webp")

    def _row(self, row: str | int) -> int:
        n_samples = len(self._samples)
        if not str(row).isdecimal() or not 0 <= int(row) < n_samples:
            raise InputError(f"rows are numbers from 0 to {n_samples - 1}; got {str(row)[:40]!r}")
        return int(row)

    # What goes out

    def _export(self, request: Request) -> Response:
        """All samples as they stand, as a table; in CSV no cell is a formula."""
        form = request.path_params["form"]
        if form not in ("csv", "jsonl", "parquet"):
            return missing()
        with self._live.held() as run:
            table = run.predictions
        file = pa.BufferOutputStream()
        with WRITERS[form](file, False) as write:
            write(table)
        name = "".join(
            letter if letter.isascii() and letter.isalnum() else "-" for letter in self._live.folder.name
        )
        headers = {"content-disposition": f'attachment; filename="{name or "run"}.{form}"'}
        return Response(file.getvalue().to_pybytes(), media_type="application/octet-stream", headers=headers)


def looking(answer: Callable[[Request], Response]) -> Answer:
    """A function that answers in a thread, its errors turned into answers."""

    async def endpoint(request: Request) -> Response:
        return await answered(lambda: answer(request))

    return endpoint


def asking(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
    """The same of one that takes JSON and gives JSON."""

    async def endpoint(request: Request) -> Response:
        try:
            body = await request.body()
        except Refused as refusal:
            return JSONResponse({"error": refusal.reason}, status_code=refusal.status)

        def read_and_answer() -> Response:
            try:
                content = json.loads(body)
            except (ValueError, RecursionError) as error:
                raise InputError(f"the request is no JSON: {error or 'nested too deeply'}") from error
            if not isinstance(content, dict):
                raise InputError("the request should be a JSON object")
            return JSONResponse(answer(content))

        return await answered(read_and_answer)

    return endpoint


async def answered(work: Callable[[], Response]) -> Response:
    """Do something in a thread; what a person can mend is said in words."""
    try:
        return await run_in_threadpool(work)
    except Outdated as error:
        return JSONResponse({"error": sentence(error)}, status_code=409)
    except (InputError, OSError) as error:
        return JSONResponse({"error": sentence(error)}, status_code=400)
    except Exception:
        logger.exception("a request could not be answered")
        return JSONResponse({"error": "The studio has a fault: its terminal says more."}, status_code=500)


def missing() -> Response:
    return JSONResponse({"error": "There is nothing here."}, status_code=404)


def first(request: Request) -> int:
    """Which sample of a list a page begins with."""
    value = request.query_params.get("first", "0")
    if not value.isdecimal() or len(value) > 12:
        raise InputError(f"first should be a number; got {value[:40]!r}")
    return int(value)


def sentence(error: Exception) -> str:
    """The text of an error as a page shows it."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
