"""Who may ask a studio, and for what: checks that every request passes before anything else sees it.

A studio listens on this machine, where other programs and every web page in the browser can reach it too. So

- a request needs the cookie, which only the printed address with its token gives;
- its `Host` has to be the studio's own: a name that somebody lets point here (DNS rebinding) is refused;
- its `Origin`, where a browser sends one, has to be the studio's, and so has `Sec-Fetch-Site`: cookies do not tell
  two ports of one machine apart, and another program's page may be on the next one;
- what changes anything is a POST of JSON, of limited size, with an `Origin`.

Answers forbid pages to frame them, to guess their types, to keep them, and to run any script but the studio's.
"""

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1 << 20
"""Bytes."""
METHODS = ("GET", "HEAD", "POST")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
NO_TOKEN = "This studio opens with the address that `newkinds studio` printed: it ends in a token."
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Refused(Exception):
    """A request that is not answered: a status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """ASGI middleware that lets only the studio's own pages through.

    Parameters
    ----------
    app : ASGI application
    token : str
        What the printed address ends in.
    hosts : iterable of str
        What `Host` may be, such as 127.0.0.1:8000.
    any_address : bool
        Whether `Host` may be any address of numbers with that port: for studios that other machines reach.
        (Rebinding needs a name.)
    """

    def __init__(self, app: "ASGIApp", token: str, hosts: Iterable[str], *, any_address: bool = False) -> None:
        self._app = app
        self._token = token
        self._session = secrets.token_urlsafe(32)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._ports = {host.rpartition(":")[2] for host in self._hosts}
        self._any_address = any_address
        self._cookie = f"newkinds-{min(self._ports, default='')}"

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("a studio has no web sockets")
        headers = _headers(scope)

        async def guarded_send(message: "Message") -> None:
            if message["type"] == "http.response.start":
                given = [
                    (name, value) for name, value in message.get("headers", []) if name.decode() not in HEADERS
                ]
                message["headers"] = given + [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            await send(message)

        try:
            self._check_source(scope, headers)
            if location := self._entrance(scope):
                cookie = f"{self._cookie}={self._session}; HttpOnly; SameSite=Strict; Path=/"
                await _answer(guarded_send, 303, "", [("location", location), ("set-cookie", cookie)])
                return
            if not self._has_cookie(headers):
                raise Refused(403, NO_TOKEN)
            body = _limited(receive, headers) if scope["method"] == "POST" else receive
            await self._app(scope, body, guarded_send)
        except Refused as refusal:
            await _answer(guarded_send, refusal.status, refusal.reason, [("connection", "close")])

    def _check_source(self, scope: "Scope", headers: dict[str, str]) -> None:
        """Refuse requests of other pages, and those to other names."""
        host = headers.get("host", "").lower()
        if not self._is_own(host):
            raise Refused(403, f"The studio does not answer to the name {host!r}.")
        if scope["method"] not in METHODS:
            raise Refused(405, f"The studio does not know {scope['method']}.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host}":
            raise Refused(403, "The studio answers its own pages only.")
        visits = scope["method"] == "GET" and scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not visits:
            raise Refused(403, "The studio answers its own pages only.")
        if scope["method"] == "POST":
            if origin is None:
                raise Refused(403, "The studio wants to know which page asks: the request has no Origin.")
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise Refused(415, "The studio takes application/json only.")

    def _is_own(self, host: str) -> bool:
        if host in self._hosts:
            return True
        if not self._any_address:
            return False
        name, _, port = host.rpartition(":")
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return port in self._ports

    def _entrance(self, scope: "Scope") -> str | None:
        """Where to go on, if the request has the right token; with a wrong one it is refused."""
        if scope["method"] != "GET" or scope["path"] != "/":
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if "token" not in query:
            return None
        if not hmac.compare_digest(query["token"][0].encode(), self._token.encode()):
            raise Refused(403, NO_TOKEN)
        return "/"

    def _has_cookie(self, headers: dict[str, str]) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        cookie = cookies.get(self._cookie)
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._session.encode())


def allowed_hosts(host: str, port: int) -> list[str]:
    """What browsers may call a studio that listens on an address."""
    names = [*LOOPBACK, f"[{host}]" if ":" in host else host, socket.gethostname()]
    return [f"{name}:{port}" for name in dict.fromkeys(names)]


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    return secrets.token_urlsafe(24)


def _headers(scope: "Scope") -> dict[str, str]:
    """By lower-case name. A name that comes twice keeps nothing: no check may see one and the app another."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        headers[key] = "" if key in headers and key != "cookie" else value.decode("latin-1")
    return headers


def _limited(receive: "Receive", headers: dict[str, str]) -> "Receive":
    """Reading a body that may not be larger than `LARGEST_BODY`, whatever it says of itself."""
    declared = headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > LARGEST_BODY:
        raise Refused(413, f"The studio takes {LARGEST_BODY >> 10} KiB at a time.")
    n_bytes = 0

    async def read() -> "Message":
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > LARGEST_BODY:
            raise Refused(413, f"The studio takes {LARGEST_BODY >> 10} KiB at a time.")
        return message

    return read


async def _answer(send: "Send", status: int, text: str, headers: list[tuple[str, str]]) -> None:
    content = text.encode()
    described = [*headers, ("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(content)))]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in described]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": content})
