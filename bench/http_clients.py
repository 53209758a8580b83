"""What one HTTP POST costs, by the ways there are to drive libcurl, against a cheap receiver in a process of its own.

    python bench/http_clients.py [--in-flight 1,32,128,512] [--requests 20000] [--work-us 0] [--only transport]

The request is a 600-byte body with three headers. `--work-us` is what the rest of a worker would do for each
answer on the event loop: it shows what a thread beside a busy loop is worth. All ways but the first use the
transport's own exchanges, with the same options and callbacks, so that only the driving differs. The median of
three runs counts; requests per second, and CPU microseconds of this process per request.
"""

# ruff: noqa: D102 - what the methods of a way do is said once, in Way

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import select
import socket
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import pycurl

from duly.ports import Answer, HttpRequest, Request
from duly.transports.http import HttpTransport
from duly.transports.http_exchange import Exchange, Settings

RUNS: Final = 3
BODY: Final = b'{"text": "' + b"a" * 588 + b'"}'
HEADERS: Final = (("content-type", "application/json"), ("webhook-id", "a" * 26), ("webhook-timestamp", "1764500000"))
ANSWER: Final = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}'
SETTINGS: Final = Settings(10_000, 5_000, allow_private_networks=True, body_limit=65_536, ca_file=None, user_agent="b")


class Way:
    """A way to drive requests: `start` puts some in the air, `completed` waits for some that have landed."""

    def __init__(self) -> None:
        self.landed: deque[object] = deque()
        self.bell = asyncio.Event()

    async def start(self, contents: Sequence[HttpRequest]) -> None:
        raise NotImplementedError

    async def completed(self, limit: int) -> Sequence[object]:
        if not self.landed:
            self.bell.clear()
            await self.bell.wait()
        return [self.landed.popleft() for _ in range(min(limit, len(self.landed)))]

    async def close(self) -> None:
        raise NotImplementedError

    def land(self, answers: Sequence[object]) -> None:
        self.landed.extend(answers)
        self.bell.set()


class RawProtocol(Way):
    """No HTTP client at all: the bytes are ready, the answer is only looked for. Nothing can be faster."""

    class _Wire(asyncio.Protocol):
        def __init__(self, owner: RawProtocol) -> None:
            self.owner = owner

        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            if data.endswith(b"}"):
                self.owner.idle.append(self)
                self.owner.land([data])

    def __init__(self) -> None:
        super().__init__()
        self.idle: list[RawProtocol._Wire] = []

    async def start(self, contents: Sequence[HttpRequest]) -> None:
        for content in contents:
            host, port = content.url.split("/")[2].split(":")
            if not self.idle:
                _, wire = await asyncio.get_running_loop().create_connection(lambda: self._Wire(self), host, int(port))
                self.idle.append(wire)
            head = "".join(f"{name}: {value}\r\n" for name, value in content.headers)
            raw = f"POST /hook HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(content.body)}\r\n{head}\r\n".encode()
            self.idle.pop().transport.write(raw + content.body)

    async def close(self) -> None:
        for wire in self.idle:
            wire.transport.close()


class Pool:
    """Exchanges, idle or in the air, and the edges of their sockets."""

    def __init__(self) -> None:
        self.poll = select.epoll()
        self.idle: list[Exchange] = []
        self.flying: dict[pycurl.Curl, Exchange] = {}

    def load(self, content: HttpRequest) -> pycurl.Curl:
        exchange = self.idle.pop() if self.idle else Exchange(SETTINGS, time.monotonic, self._opened, set())
        exchange.load(Request(0, content, float("inf")), content, "", fresh=False)
        self.flying[exchange.curl] = exchange
        return exchange.curl

    def land(self, curl: pycurl.Curl) -> Answer:
        exchange = self.flying.pop(curl)
        self.idle.append(exchange)
        return exchange.answer(0)

    def land_all(self, multi: pycurl.CurlMulti) -> list[Answer]:
        _, good, bad = multi.info_read(2000)
        if bad:
            raise RuntimeError(bad)
        for curl in good:
            multi.remove_handle(curl)
        return [self.land(curl) for curl in good]

    def _opened(self, descriptor: int, _host: str) -> None:
        self.poll.register(descriptor, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)


class PollLoop(Way):
    """perform and select on the calling thread, which can do nothing else meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.multi, self.pool = pycurl.CurlMulti(), Pool()

    async def start(self, contents: Sequence[HttpRequest]) -> None:
        for content in contents:
            self.multi.add_handle(self.pool.load(content))

    async def completed(self, limit: int) -> Sequence[object]:
        del limit
        while True:
            self.multi.perform()
            if landed := self.pool.land_all(self.multi):
                return landed
            self.multi.select(1.0)

    async def close(self) -> None:
        self.multi.close()


class Thread(Way):
    """perform and epoll on a thread of their own; batches go over both ways, with one wake-up each."""

    def __init__(self) -> None:
        super().__init__()
        self.multi, self.pool = pycurl.CurlMulti(), Pool()
        self.inbox: deque[HttpRequest] = deque()
        self.loop = asyncio.get_running_loop()
        self.near, self.far = socket.socketpair()
        self.near.settimeout(0)
        self.pool.poll.register(self.near.fileno(), select.EPOLLIN)
        self.asleep = self.stopped = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    async def start(self, contents: Sequence[HttpRequest]) -> None:
        self.inbox.extend(contents)
        self._wake()

    async def close(self) -> None:
        self.stopped = self.asleep = True
        self._wake()
        self.thread.join()
        self.multi.close()
        self.near.close()
        self.far.close()

    def _wake(self) -> None:
        if self.asleep:
            self.asleep = False
            self.far.send(b"x")

    def _run(self) -> None:
        while not self.stopped:
            while self.inbox:
                self.multi.add_handle(self.pool.load(self.inbox.popleft()))
            self.multi.perform()
            if landed := self.pool.land_all(self.multi):
                self.loop.call_soon_threadsafe(self.land, landed)
            self.asleep = True
            if not self.inbox:
                self.pool.poll.poll(0.5, 2000)
            self.asleep = False
            with contextlib.suppress(BlockingIOError):
                self.near.recv(4096)


class AsyncMulti(Way):
    """pycurl's own asyncio driver: a future, and readers and writers of the loop, for each request."""

    def __init__(self) -> None:
        super().__init__()
        self.multi, self.pool = pycurl.AsyncCurlMulti(), Pool()

    async def start(self, contents: Sequence[HttpRequest]) -> None:
        for content in contents:
            self.multi.add_handle(self.pool.load(content)).add_done_callback(self._ended)

    async def close(self) -> None:
        await self.multi.aclose()

    def _ended(self, future: asyncio.Future[pycurl.Curl]) -> None:
        self.land([self.pool.land(future.result())])


class Transport(Way):
    """The transport of Duly, with its slots and its turns on the event loop; like the others it does not linger."""

    def __init__(self) -> None:
        super().__init__()
        self.over = HttpTransport(
            reading=time.monotonic, allow_private_networks=True, capacity=2000, per_host=2000, linger_seconds=0
        )

    async def start(self, contents: Sequence[HttpRequest]) -> None:
        self.over.reserve([content.url for content in contents])
        await self.over.start([Request(0, content, float("inf")) for content in contents])
        self.url = contents[0].url

    async def completed(self, limit: int) -> Sequence[object]:
        landed = await self.over.completed(limit, 5)
        if any(one.answer.status != 200 for one in landed):  # noqa: PLR2004 - OK
            raise RuntimeError("the receiver failed")
        self.over.release([self.url] * len(landed))
        return landed

    async def close(self) -> None:
        await self.over.close()


WAYS: Final[dict[str, Callable[[], Way]]] = {
    "raw protocol": RawProtocol,
    "poll loop": PollLoop,
    "thread": Thread,
    "AsyncCurlMulti": AsyncMulti,
    "transport": Transport,
}


class Receiver(asyncio.Protocol):
    """Says 200 to every whole request, and does nothing else."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.seen = b""

    def data_received(self, data: bytes) -> None:
        self.seen += data
        while (size := self._size()) and len(self.seen) >= size:
            self.seen = self.seen[size:]
            self.transport.write(ANSWER)

    def _size(self) -> int:
        head = self.seen.find(b"\r\n\r\n")
        if head < 0:
            return 0
        at = self.seen.lower().find(b"content-length:", 0, head) + len(b"content-length:")
        return head + 4 + int(self.seen[at : self.seen.find(b"\r\n", at)])


def receive(port: Any) -> None:
    """Serve until killed; the port goes down the pipe."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0, backlog=2048)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    _loop_runner()(serve())


async def measure(
    make: Callable[[], Way], url: str, in_flight: int, requests: int, work_us: float
) -> tuple[float, float]:
    """Requests per second and CPU microseconds per request, with so many in flight all the time."""
    way, content = make(), HttpRequest(url, HEADERS, BODY)
    started = done = 0
    began, cpu = time.perf_counter(), time.process_time()
    while done < requests:
        if wanted := min(in_flight - (started - done), requests - started):
            await way.start([content] * wanted)
            started += wanted
        landed = len(await way.completed(in_flight))
        done += landed
        _work(landed * work_us)
    took, spent = time.perf_counter() - began, time.process_time() - cpu
    await way.close()
    return requests / took, 1e6 * spent / requests


def _work(microseconds: float) -> None:
    until = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < until:
        pass


def _loop_runner() -> Callable[..., Any]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", default="1,32,128,512")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--work-us", type=float, default=0)
    parser.add_argument("--only", choices=WAYS)
    wanted = parser.parse_args()
    mine, theirs = multiprocessing.Pipe()
    receiver = multiprocessing.Process(target=receive, args=(theirs,), daemon=True)
    receiver.start()
    url = f"http://127.0.0.1:{mine.recv()}/hook"
    crowds = [int(number) for number in wanted.in_flight.split(",")]
    print(f"{'in flight':16}" + "".join(f"{crowd:>20}" for crowd in crowds))
    for name in [wanted.only] if wanted.only else WAYS:
        print(f"{name:16}" + "".join(_cell(WAYS[name], url, crowd, wanted) for crowd in crowds), flush=True)
    receiver.terminate()


def _cell(make: Callable[[], Way], url: str, crowd: int, wanted: argparse.Namespace) -> str:
    requests = wanted.requests // 5 if crowd == 1 else wanted.requests
    runs = [_loop_runner()(measure(make, url, crowd, requests, wanted.work_us)) for _ in range(RUNS)]
    rate, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
    return f"{rate:>11,.0f}/s{cpu:>5.0f} us"


if __name__ == "__main__":
    main()
