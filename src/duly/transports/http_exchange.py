"""One request on one libcurl handle: what is sent, what came back, and the evidence of how far it got.

The evidence is one fact that libcurl states before each request: its pre-request callback. Until it is
called nothing but DNS, TCP and TLS has happened, so a failure before it proves that nothing was sent. After
it, bytes may have left, and every failure without a status line is unknown.

The same callback keeps the promise of one request per attempt. libcurl repeats a request by itself when a
reused connection dies before an answer, also one without a body. A second call of the callback is that
repeat, and is refused. The body has a guard of its own: it is read once by a callback, and cannot be rewound.
A GET has no body, so nothing is read for it; the rule of one request is the same.

Handles are pooled. What never changes is set once; a request sets its URL, its headers and its length.

Sources: https://curl.se/libcurl/c/CURLOPT_PREREQFUNCTION.html, .../CURLOPT_SEEKFUNCTION.html
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pycurl

from duly.ports import Answer, HttpRequest, Request, Sent
from duly.transports.addresses import is_public

__all__ = ["BROKEN", "CUT", "Exchange", "Settings", "Unsendable", "unsent"]

#: Codes of ours beside libcurl's, which are not negative.
CUT: Final = -1  # the transport was closed under it
BROKEN: Final = -2  # the machinery around it failed

HEADER_BYTES_MAX: Final = 32 * 1024
IDLE_SECONDS_MAX: Final = 15  # of a connection: many receivers close theirs after as long
LIFETIME_SECONDS_MAX: Final = 300  # of a connection: addresses change
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
#: Headers that say where a message ends or what becomes of the connection: they are the transport's.
FRAMING: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
METHODS: Final = {"GET": pycurl.HTTPGET, "POST": pycurl.POST}
FIRST_FINAL_STATUS: Final = 200  # 1xx are not answers (RFC 9110, 15.2)

_TLS_CODES: Final = frozenset(
    {
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_SSL_ENGINE_NOTFOUND,
        pycurl.E_SSL_ENGINE_SETFAILED,
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CIPHER,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_USE_SSL_FAILED,
        pycurl.E_SSL_ENGINE_INITFAILED,
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_SSL_CRL_BADFILE,
        pycurl.E_SSL_ISSUER_ERROR,
        pycurl.E_SSL_PINNEDPUBKEYNOTMATCH,
        pycurl.E_SSL_INVALIDCERTSTATUS,
    }
)
_LOST_CODES: Final = {
    CUT: "the transport was closed",
    pycurl.E_PARTIAL_FILE: "the connection ended early",
    pycurl.E_ABORTED_BY_CALLBACK: "the connection ended before an answer; a repeat was refused",
    pycurl.E_GOT_NOTHING: "the connection ended before an answer",
    pycurl.E_SEND_ERROR: "the connection ended while sending",
    pycurl.E_RECV_ERROR: "the connection ended while receiving",
    pycurl.E_SEND_FAIL_REWIND: "the connection ended before an answer; a repeat was refused",
}


class Settings(NamedTuple):
    """What is the same for every request of a transport. Times in milliseconds, sizes in bytes."""

    timeout_ms: int
    connect_timeout_ms: int
    allow_private_networks: bool
    body_limit: int
    ca_file: str | None
    user_agent: str


class Unsendable(Exception):
    """The request cannot be put on the wire as it stands. The text says which part, never its value."""


class Exchange:
    """A pooled handle and the request that it carries.

    `opened` is told of each new socket and the host that it leads to. While the request is in `restless` it can
    move without news of a socket: its name is being resolved, or its body is not read to the end.
    """

    __slots__ = (
        "_allow_private",
        "_body",
        "_body_limit",
        "_fresh",
        "_header_bytes",
        "_host",
        "_lines",
        "_method",
        "_opened",
        "_reading",
        "_restless",
        "_socket",
        "_start_before",
        "_unread",
        "allowed",
        "begun",
        "curl",
        "late",
        "refused",
        "token",
    )

    def __init__(
        self,
        settings: Settings,
        reading: Callable[[], float],
        opened: Callable[[int, str], None],
        restless: set[Exchange],
    ) -> None:
        self._reading = reading
        self._allow_private = settings.allow_private_networks
        self._body_limit = settings.body_limit
        self._opened = opened
        self._restless = restless
        self._socket: socket.socket | None = None  # libcurl uses a duplicate of it
        self._lines: list[bytes] = []
        self.curl = pycurl.Curl()
        self._set_constants(settings)
        self._set_callbacks()
        self._method: str | None = None  # what the handle is set to send
        self._fresh = False
        self._reset(0, "", b"", 0.0)

    def load(self, request: Request, content: HttpRequest, host: str, *, fresh: bool) -> None:
        """Put a request on the handle; `fresh` asks for a new connection.

        Raises Unsendable for a URL, headers or a method that could not be sent as they are.
        """
        self._reset(request.token, host, content.body, request.start_before)
        self._choose(content)
        curl = self.curl
        try:
            curl.setopt(pycurl.URL, content.url)
            curl.setopt(pycurl.HTTPHEADER, _header_lines(content.headers))
        except (UnicodeError, pycurl.error) as error:
            raise Unsendable("the URL or a header holds characters that cannot be sent") from error
        if content.method == "POST":
            curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(content.body))
        if fresh is not self._fresh:
            curl.setopt(pycurl.FRESH_CONNECT, fresh)
            self._fresh = fresh

    def answer(self, code: int) -> Answer:
        """What libcurl's result code (0 is success) and the evidence say."""
        if not self.begun:
            return self._unsent(code)
        status = int(self.curl.getinfo(pycurl.RESPONSE_CODE))
        if status >= FIRST_FINAL_STATUS:
            return Answer(status, _headers(self._lines), bytes(self._body), detail=self._cut_detail(code))
        error, detail = _lost(code)
        return Answer(error=error, sent=Sent.SOME, detail=detail)

    def close(self) -> None:
        """Give the handle back to libcurl."""
        self.curl.close()

    def _choose(self, content: HttpRequest) -> None:
        """Let the handle send this method; most often it is that of the request before."""
        if content.method == "GET" and content.body:
            raise Unsendable("a GET carries no body")
        if content.method == self._method:
            return
        if content.method not in METHODS:
            raise Unsendable("the method is neither GET nor POST")
        self.curl.setopt(METHODS[content.method], 1)
        self._method = content.method

    def _reset(self, token: int, host: str, body: bytes, start_before: float) -> None:
        self.token = token
        self._start_before = start_before
        self._host = host
        self.begun = False  # libcurl was about to write a request
        self.late = False  # the connection came too late for it
        self.allowed = 0  # addresses that may be connected to
        self.refused = 0  # addresses refused
        self._unread = body
        self._body = bytearray()
        self._lines.clear()
        self._header_bytes = 0

    def _set_constants(self, settings: Settings) -> None:
        curl = self.curl
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PROXY, "")  # not even from the environment
        curl.setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
        curl.setopt(pycurl.USERAGENT, settings.user_agent)
        curl.setopt(pycurl.TIMEOUT_MS, settings.timeout_ms)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, settings.connect_timeout_ms)
        curl.setopt(pycurl.MAXAGE_CONN, IDLE_SECONDS_MAX)
        curl.setopt(pycurl.MAXLIFETIME_CONN, LIFETIME_SECONDS_MAX)
        curl.setopt(pycurl.SSL_VERIFYPEER, 1)
        curl.setopt(pycurl.SSL_VERIFYHOST, 2)
        curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
        if settings.ca_file is not None:
            curl.setopt(pycurl.CAINFO, settings.ca_file)

    def _set_callbacks(self) -> None:
        curl = self.curl
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_address)
        curl.setopt(pycurl.SOCKOPTFUNCTION, self._on_socket)
        curl.setopt(pycurl.PREREQFUNCTION, self._on_request)
        curl.setopt(pycurl.READFUNCTION, self._on_read)
        curl.setopt(pycurl.SEEKFUNCTION, _refuse_to_rewind)
        curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)

    def _on_address(self, _purpose: int, address: Any) -> socket.socket | int:
        """Judge an address after DNS and before anything is sent to it."""
        self._restless.discard(self)
        family, kind, protocol, where = address
        if not self._may_connect(family, where):
            self.refused += 1
            return pycurl.SOCKET_BAD
        self.allowed += 1
        try:
            self._socket = socket.socket(family, kind, protocol)
        except OSError:  # no descriptor left: no connection, and nothing was sent
            return pycurl.SOCKET_BAD
        return self._socket

    def _on_socket(self, descriptor: int, _purpose: int) -> int:
        """Watch libcurl's own duplicate of the socket, and let go of ours."""
        if self._socket is not None:
            self._socket.close()
        try:
            self._opened(descriptor, self._host)
        except OSError:  # a socket that nobody watches would hang: better none
            return pycurl.SOCKOPT_ERROR
        return pycurl.SOCKOPT_OK

    def _may_connect(self, family: int, where: Any) -> bool:
        return family in (socket.AF_INET, socket.AF_INET6) and (self._allow_private or is_public(where[0]))

    def _on_request(self, *_ends: object) -> int:
        """A request is about to be written: refused if its time has passed, or if it would be a repeat."""
        self._restless.discard(self)
        self.late = not self.begun and self._reading() >= self._start_before
        if self.begun or self.late:
            return pycurl.PREREQFUNC_ABORT
        self.begun = True
        return pycurl.PREREQFUNC_OK

    def _on_read(self, room: int) -> bytes:
        part, self._unread = self._unread[:room], self._unread[room:]
        if self._unread:
            self._restless.add(self)
        else:
            self._restless.discard(self)
        return part

    def _on_header(self, line: bytes) -> None:
        """Keep the lines of the latest response, up to a limit. libcurl itself ends the transfer at 300 KiB."""
        if line.startswith(b"HTTP/"):
            self._lines.clear()
            self._header_bytes = 0
        self._header_bytes += len(line)
        if self._header_bytes <= HEADER_BYTES_MAX:
            self._lines.append(line)

    def _on_body(self, part: bytes) -> int:
        """Keep the body up to the limit. Taking less than was offered ends the transfer."""
        taken = part[: self._body_limit - len(self._body)]
        self._body += taken
        return len(taken)

    def _cut_detail(self, code: int) -> str:
        if code == 0:
            return ""
        if code == pycurl.E_WRITE_ERROR:
            return f"body cut at {self._body_limit} bytes"
        return f"answer cut short: {_lost(code)[1]}"

    def _unsent(self, code: int) -> Answer:
        if self.late:
            return unsent("too_late", "the connection was made after the time to start it")
        if self.refused and not self.allowed:
            return unsent("refused_address", "the host has no address outside private networks")
        if code == BROKEN:
            return Answer(error="protocol", sent=Sent.SOME, detail="the transport failed")
        return unsent(*_not_connected(code, self.curl))


def unsent(error: str, detail: str) -> Answer:
    """An answer that proves that nothing was sent."""
    return Answer(error=error, sent=Sent.NOTHING, detail=detail)


def _refuse_to_rewind(_offset: int, _origin: int) -> int:
    return 1  # CURL_SEEKFUNC_FAIL: the transfer fails


def _not_connected(code: int, curl: pycurl.Curl) -> tuple[str, str]:
    """The error and its words for a request that was never begun."""
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return "dns", "the host name does not resolve"
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return "timeout", "no connection in time"
    if code in _TLS_CODES:
        return "tls", f"TLS failed (libcurl {code}, verify result {curl.getinfo(pycurl.SSL_VERIFYRESULT)})"
    if code in (pycurl.E_URL_MALFORMAT, pycurl.E_UNSUPPORTED_PROTOCOL):
        return "protocol", "the URL is not one that can be sent to"
    return "connect", f"no connection ({_system_error(curl)})" if code > 0 else _lost(code)[1]


def _system_error(curl: pycurl.Curl) -> str:
    number = int(curl.getinfo(pycurl.OS_ERRNO))
    return errno.errorcode.get(number, "no reason given")


def _lost(code: int) -> tuple[str, str]:
    """The error and its words for a request that was begun and has no answer."""
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return "timeout", "no answer in time"
    if code in _LOST_CODES:
        return "reset", _LOST_CODES[code]
    return "protocol", "the transport failed" if code == BROKEN else f"the answer is not HTTP/1.1 (libcurl {code})"


def _header_lines(headers: tuple[tuple[str, str], ...]) -> list[str]:
    """Header lines as libcurl wants them, without the ones it would add by itself."""
    lines = [_header_line(name, value) for name, value in headers]
    lines.append("Expect:")
    if not any(name.lower() == "content-type" for name, _ in headers):
        lines.append("Content-Type:")
    return lines


def _header_line(name: str, value: str) -> str:
    if not _is_free_name(name):
        raise Unsendable("a header name is not a token, or belongs to the transport")
    if "\r" in value or "\n" in value or "\0" in value:
        raise Unsendable(f"the value of header {name} holds CR, LF or NUL")
    # "Name:" alone would remove the header, "Name;" sends it empty.
    return f"{name}: {value}" if value.strip() else f"{name};"


@lru_cache(maxsize=1024)
def _is_free_name(name: str) -> bool:
    return TOKEN.fullmatch(name) is not None and name.lower() not in FRAMING


def _headers(lines: list[bytes]) -> dict[str, str]:
    """Names in lower case; of a repeated header the values are joined (RFC 9110, 5.3)."""
    headers: dict[str, str] = {}
    for line in b"".join(lines[1:]).decode("latin-1").split("\n"):
        if line in ("\r", ""):
            break  # what follows are trailers
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
