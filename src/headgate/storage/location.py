"""From a URL to the store behind it.

Also whether two locations are inside each other: one lake must not be inside another.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headgate.core.input.arguments import require_unicode
from headgate.core.input.secrets import clean_text
from headgate.errors import InvalidInputError, UnsupportedError, shown
from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore

Options = Mapping[str, str]

CONNECT_TIMEOUT = timedelta(seconds=5)
REQUEST_TIMEOUT = timedelta(seconds=30)
RETRIES_BELOW_US = 4
"""How often the object storage client retries a request that failed in a temporary way."""
RETRY_WINDOW = timedelta(seconds=20)
"""How long after the first attempt it still retries.

So a closed port fails within seconds, an address that does not answer within half a minute, and a server that
hangs after one request time-out.
"""

HADOOP_SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "o3fs")
"""Schemes of locations that only the Hadoop client of a Spark session knows; `Lake.open` handles them."""

_memory_stores: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


def open_store(url: str | os.PathLike[str], options: Options | None = None) -> Store:
    """The store at `url`: a path, or `file://`, `s3://`, `gs://`, `az://`, `memory://`.

    Object storage takes credentials and endpoint from the usual environment variables (`AWS_…`, `GOOGLE_…`,
    `AZURE_…`) and from `options`, which take precedence. Options are those of obstore's stores and of its
    HTTP client, such as `endpoint`, `region`, `timeout`. Sends no request.
    """
    text = _place(url)
    _refuse_wrong_types(options)
    scheme, separator, _ = text.partition("://")
    if not separator:
        _refuse_mistyped_url(text)
        return _local(text, options or {})
    if scheme.lower() in HADOOP_SCHEMES:
        raise UnsupportedError(
            f"{clean_text(text)!r} can only be reached through a Spark session",
            "open it with Lake.open, or with headgate.spark.store.hadoop.open_hadoop_store",
        )
    opener = SCHEMES.get(scheme.lower())
    if opener is None:
        known = sorted(f"{name}://" for name in (*SCHEMES, "hdfs"))
        raise UnsupportedError(
            f"{clean_text(text)!r}: the scheme {scheme}:// is not supported",
            f"use a path or one of {', '.join(known)}",
        )
    _refuse_query(text)
    return opener(text, options or {})


def hadoop_place(url: str | os.PathLike[str], options: Options | None = None) -> str | None:
    """The URL, if it names a location that is reached through Spark's Hadoop client; else None."""
    text = _place(url)
    scheme, separator, _ = text.partition("://")
    if not separator or scheme.lower() not in HADOOP_SCHEMES:
        return None
    _refuse_wrong_types(options)
    if options:
        raise InvalidInputError(
            f"{scheme}:// has no options, but got {', '.join(sorted(options))}",
            "put them into the Spark session: hg.session(**{'spark.hadoop.…': …})",
        )
    return text


def _place(url: str | os.PathLike[str]) -> str:
    text = os.fspath(url)
    if not isinstance(text, str):
        raise InvalidInputError(
            f"a location must be a string or a Path, not {type(text).__name__}: {shown(text)}"
        )
    require_unicode("the location of the lake", text)
    # Parsers of URLs drop some of them silently, and the lake would be in a location that nobody named.
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise InvalidInputError(f"{clean_text(text)!r} is not a path or URL: it has control characters")
    return text


def _refuse_wrong_types(options: Options | None) -> None:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(f"options must be a mapping, not a {type(options).__name__}")
    for name, value in (options or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            # The value may be a credential.
            raise InvalidInputError(
                f"the storage option {shown(name)} is a {type(value).__name__}, but both must be strings",
                'write it as options={"fsync": "false"}',
            )
        if any(unicodedata.category(character) == "Cc" for character in value):
            raise InvalidInputError(
                f"the value of the storage option {name!r} has control characters, such as a line break",
                "remove them; if the value comes from a file, strip the line break at its end",
            )


def _refuse_mistyped_url(path: str) -> None:
    scheme, colon, rest = path.partition(":")
    if colon and scheme.lower() in SCHEMES:
        raise InvalidInputError(
            f"{clean_text(path)!r} is ambiguous: it may be a URL or a path",
            f"write {scheme}://{rest.lstrip('/')}, or ./{path} if you mean a directory of this name",
        )


def _refuse_query(url: str) -> None:
    # Both would be cut off silently, and the lake would be in a location that nobody named.
    if "?" in url or "#" in url:
        raise InvalidInputError(
            f"{clean_text(url)!r} has a part after '?' or '#'", "write '?' as %3F and '#' as %23 in URLs"
        )


def _local(url: str, options: Options) -> Store:
    unknown = set(options) - {"fsync"}
    if unknown:
        raise InvalidInputError(
            f"unknown options for a local directory: {', '.join(sorted(unknown))}", "known: fsync"
        )
    fsync = options.get("fsync", "true").lower()
    if fsync not in ("true", "false"):
        raise InvalidInputError(f"the option fsync cannot be {fsync!r}", "set it to true or false")
    directory = _directory(url)
    try:
        return LocalStore(directory, fsync=fsync == "true")
    except FileNotFoundError as error:
        raise InvalidInputError(
            f"{str(directory)!r} is a relative path, and the working directory is gone",
            "change to a directory that exists, or give the absolute path",
        ) from error


def _directory(url: str) -> Path:
    path = _path_of_file_url(url) if url.lower().startswith("file://") else url
    if not path:
        raise InvalidInputError(
            "the path of the lake is empty", "name a directory, or a URL such as s3://bucket/lake"
        )
    if "\0" in path:  # written as %00
        raise InvalidInputError(f"{path!r} is not a path", "remove the null character")
    try:
        directory = Path(path).expanduser()
    except RuntimeError as error:  # ~nobody
        raise InvalidInputError(f"{path!r}: {error}", "write the absolute path") from error
    if _is_file(directory):
        raise InvalidInputError(f"{path} is a file", "name a directory: an existing one, or a new one")
    return directory


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no permission to read the directory; reading or writing there will report it
        return False


def _path_of_file_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise InvalidInputError(
            f"{url!r} names the host {parts.netloc!r}", "write file:///path, or just the path"
        )
    return unquote(parts.path)


def _memory(url: str, options: Options) -> Store:
    if options:
        raise InvalidInputError(f"a store in memory has no options, but got {', '.join(sorted(options))}")
    name = url.partition("://")[2].strip("/")
    with _memory_lock:
        return _memory_stores.setdefault(name, MemoryStore(name))


def _object(url: str, options: Options) -> Store:
    # Imported here: a lake on a local disk starts faster without the object storage client.
    from obstore import store as stores
    from obstore.exceptions import BaseError

    from headgate.storage.object import ObjectStore

    service = _SERVICES[url.partition("://")[0].lower()]
    _refuse_unclear_place(url, service)
    place = url.rstrip("/")
    config, client = _settings(service, options)
    from_url: Any = stores.from_url  # each service has its own set of options
    try:
        store = from_url(
            place,
            config=config,
            client_options=client,
            retry_config={"max_retries": RETRIES_BELOW_US, "retry_timeout": RETRY_WINDOW},
        )
    except (BaseError, ValueError, TypeError) as error:
        reason = str(error).strip().split("\n", maxsplit=1)[0]
        raise InvalidInputError(f"cannot use {place}: {clean_text(reason)}") from None
    # As strings: two stores have the same location if they got the same settings.
    settings = tuple(sorted((name, str(value)) for name, value in (config | client).items()))
    return ObjectStore(store, place, settings=settings)


def _refuse_unclear_place(url: str, service: str) -> None:
    parts = urlsplit(url)
    if not parts.netloc:
        raise InvalidInputError(f"{clean_text(url)!r} names no bucket", "write it as s3://bucket/path")
    # Each of these would be dropped silently. An `@` is how Azure writes container and account.
    credentials = ":" in parts.netloc or ("@" in parts.netloc and service != "azure")
    if credentials or ".." in unquote(parts.path).split("/"):
        raise InvalidInputError(
            f"{clean_text(url)!r} is not a plain location in a bucket",
            "leave out '..' and ports; give credentials as options or in the environment",
        )


CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
"""The options for obstore's HTTP client; all others are for the service."""

_ENDPOINT_NAMES: dict[str, tuple[str, ...]] = {
    "aws": ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint"),
    "azure": ("azure_storage_endpoint", "azure_endpoint", "endpoint"),
    "google": (),
}
"""The names of the endpoint, in options and (those with the service's name) in the environment; the first
wins. obstore reads the variables by itself, but accepts any of several."""

_DEFAULTS: dict[str, dict[str, str]] = {
    # One plain DELETE for each object: not every service that speaks S3 supports the request for many.
    "aws": {"disable_bulk_delete": "true"},
    "azure": {},
    "google": {},
}


def _settings(service: str, options: Options) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings for the service and for the HTTP client."""
    config: dict[str, Any] = dict(_DEFAULTS[service])
    client: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT, "timeout": REQUEST_TIMEOUT}
    for name, value in options.items():
        bare = name.lower().removeprefix(f"{service}_")
        if bare in CLIENT_OPTIONS:
            client[bare] = value
        elif name.lower() not in _ENDPOINT_NAMES[service]:
            config[bare if bare in config else name] = value
    endpoint = _endpoint(service, options)
    if endpoint is not None:
        config["endpoint"] = endpoint
        # obstore needs two settings for an endpoint without encryption.
        client.setdefault("allow_http", endpoint.lower().startswith("http://"))
    return config, client


def _endpoint(service: str, options: Options) -> str | None:
    names = _ENDPOINT_NAMES[service]
    given = {name.lower(): value for name, value in options.items()}
    variables = [name.upper() for name in names if name.startswith(service)]
    candidates = [*map(given.get, names), *map(os.environ.get, variables)]
    endpoint = next((candidate for candidate in candidates if candidate), None)
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or " " in endpoint:
        raise InvalidInputError(
            f"the endpoint {clean_text(endpoint)!r} is not a URL",
            "write it as https://host or http://host:port",
        )
    return endpoint


_SERVICES = {"s3": "aws", "s3a": "aws", "gs": "google", "az": "azure", "abfs": "azure", "abfss": "azure"}

SCHEMES: dict[str, Callable[[str, Options], Store]] = {
    "file": _local,
    "memory": _memory,
    **dict.fromkeys(_SERVICES, _object),
}


_FILE, _MEMORY = "file://", "memory://"


def overlap(one: Store, other: Store) -> bool:
    """Whether one of the locations is inside the other, or they are the same directory.

    Two buckets with the same name at different services have the same URI, so object storage at the same URI
    does not count as the same location.
    """
    first, second = _resolved(one.uri()), _resolved(other.uri())
    if first == second:
        return first.startswith((_FILE, _MEMORY))
    if first.startswith(_MEMORY):
        return False
    return first.startswith(f"{second}/") or second.startswith(f"{first}/")


def _resolved(uri: str) -> str:
    if uri.startswith(_FILE):
        # Links may lead from one into the other.
        return f"{_FILE}{Path(uri.removeprefix(_FILE)).resolve()}"
    return uri if uri.startswith(_MEMORY) else uri.replace("s3a://", "s3://", 1).rstrip("/")
