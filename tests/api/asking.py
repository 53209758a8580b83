"""Requests to an application without a socket: a scope goes in, what was sent comes out."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Answer", "ask"]


class Answer(NamedTuple):
    """What was answered, and whether the body was asked for."""

    status: int
    headers: dict[str, str]
    body: str
    read: bool


async def ask(app: Any, method: str, path: str, headers: dict[str, str] | None = None) -> Answer:
    """One request; `path` is as it reads after decoding, and may hold anything."""
    sent: list[Any] = []
    reads: list[bool] = []

    async def receive() -> dict[str, Any]:
        reads.append(True)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "query_string": b"", "headers": named}
    await app(scope, receive, send)
    start, *bodies = sent
    told = {name.decode(): value.decode() for name, value in start["headers"]}
    assert len(told) == len(start["headers"]), "a header was sent twice"
    return Answer(start["status"], told, b"".join(one["body"] for one in bodies).decode(), bool(reads))
