"""What happens, for all who listen: server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

WAITING_EVENTS = 500  # a listener that is further behind is sent away; it comes back and asks for the list
SILENCE_SECONDS = 15.0  # then a comment keeps the connection alive
MOST_LISTENERS = 200


class Events:
    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[str | None]] = set()

    def publish(self, kind: str, data: Any) -> None:
        text = f"event: {kind}\ndata: {json.dumps(data)}\n\n"
        for listener in list(self._listeners):
            if listener.qsize() >= WAITING_EVENTS:
                self._leave(listener)
            else:
                listener.put_nowait(text)

    @property
    def full(self) -> bool:
        return len(self._listeners) >= MOST_LISTENERS

    async def listen(self, greeting: Any) -> AsyncIterator[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            yield f"retry: 1000\nevent: hello\ndata: {json.dumps(greeting)}\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), SILENCE_SECONDS)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        for listener in list(self._listeners):
            self._leave(listener)

    def _leave(self, listener: asyncio.Queue[str | None]) -> None:
        self._listeners.discard(listener)
        listener.put_nowait(None)
