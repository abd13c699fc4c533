"""The systems on an S3 API server: each with the options to reach the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from benchmarks.harness.system import DELTA_RS, HEADGATE, PYICEBERG, System

ON_S3 = "S3 API server"


class Server(Protocol):
    """A running server with one bucket; `options` are for `open_store`."""

    @property
    def options(self) -> Mapping[str, str]: ...

    def url(self, prefix: str = "") -> str:
        """A place in the bucket."""
        ...


def on_server(system: System, server: Server, directory: str, engine: str = ON_S3, **settings: Any) -> System:
    """A system whose tables are in a directory of the server; it is compared with the others there."""
    where = {"url": server.url(directory), "options": _options(server.options)[system.name]}
    return replace(system, engine=engine, settings={**system.settings, **where, **settings})


def _options(known: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    return {
        HEADGATE.name: dict(known),
        DELTA_RS.name: {
            "AWS_ENDPOINT_URL": known["endpoint"],
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": known["region"],
            "AWS_ACCESS_KEY_ID": known["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": known["secret_access_key"],
        },
        PYICEBERG.name: {
            "s3.endpoint": known["endpoint"],
            "s3.region": known["region"],
            "s3.access-key-id": known["access_key_id"],
            "s3.secret-access-key": known["secret_access_key"],
        },
    }
