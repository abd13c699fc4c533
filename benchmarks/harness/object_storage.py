"""The systems on an S3 API server: each with the options by which it finds the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchmarks.harness.system import DELTA_RS, HEADGATE, PYICEBERG, System

from headgate.testing.s3 import S3Server

ON_S3 = "S3 API server"


def on_server(system: System, server: S3Server, directory: str, **settings: Any) -> System:
    """A system whose tables lie in a directory of the server, compared with the others that lie there."""
    where = {"url": server.url(directory), "options": _options(server)[system.name]}
    return replace(system, engine=ON_S3, settings={**system.settings, **where, **settings})


def _options(server: S3Server) -> Mapping[str, Mapping[str, str]]:
    known = dict(server.options)
    return {
        HEADGATE.name: known,
        DELTA_RS.name: {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": known["region"],
            "AWS_ACCESS_KEY_ID": known["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": known["secret_access_key"],
        },
        PYICEBERG.name: {
            "s3.endpoint": server.endpoint,
            "s3.region": known["region"],
            "s3.access-key-id": known["access_key_id"],
            "s3.secret-access-key": known["secret_access_key"],
        },
    }
