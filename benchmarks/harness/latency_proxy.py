"""A TCP proxy that makes a server on this machine as far away as one on the network.

Bytes arrive half of the latency later in each direction, in order and at full bandwidth, so a request takes
the whole latency longer, and requests on different connections do not wait for one another. The proxy also
counts requests: over HTTP/1.1 without pipelining, a request begins whenever a connection that is idle, or
has just received an answer, sends bytes.

    python -m benchmarks.harness.latency_proxy UPSTREAM_PORT LATENCY_SECONDS

It prints the port that it listens on. Each line on standard input prints the number of requests so far; it
ends at the end of the input.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

CHUNK = 1 << 16


class LatencyProxy:
    """Listens on a port of its own, and forwards to `upstream`."""

    def __init__(self, upstream: int, latency_seconds: float) -> None:
        self._upstream = upstream
        self._one_way = latency_seconds / 2
        self.requests = 0

    async def listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        for end in (writer, far_writer):
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_asking = False

        def asked() -> None:
            nonlocal is_asking
            self.requests += not is_asking
            is_asking = True

        def answered() -> None:
            nonlocal is_asking
            is_asking = False

        await asyncio.gather(
            self._forward(reader, far_writer, asked), self._forward(far_reader, writer, answered)
        )

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[], None]
    ) -> None:
        clock = asyncio.get_running_loop().time
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(due - clock())
                if not data:
                    return
                writer.write(data)
                await writer.drain()

        delivery = asyncio.create_task(deliver())
        # Either side may hang up at any time: a client that ends, or a server that drops an idle connection.
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                seen()
                queue.put_nowait((clock() + self._one_way, data))
        queue.put_nowait((clock() + self._one_way, b""))
        with suppress(ConnectionError):
            await delivery
        writer.close()


async def serve(upstream: int, latency_seconds: float) -> None:
    proxy = LatencyProxy(upstream, latency_seconds)
    server = await proxy.listen()
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(proxy.requests, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
