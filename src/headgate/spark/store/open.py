"""Opens the store at a location with the right client: obstore, the local disk, or Spark's Hadoop client."""

from __future__ import annotations

import os

from headgate.errors import InvalidInputError
from headgate.storage.capabilities import Store
from headgate.storage.location import Options, hadoop_place, open_store


def opened_store(place: str | os.PathLike[str] | Store, options: Options | None) -> Store:
    """The store at a location. Raises `InvalidInputError` if the location is not valid."""
    if isinstance(place, str | os.PathLike):
        hadoop = hadoop_place(place, options)
        return open_store(place, options) if hadoop is None else _hadoop_store(hadoop)
    if not isinstance(place, Store):
        raise InvalidInputError(
            f"the location of a lake must be a path, a URL or a store, not a {type(place).__name__}",
            "write it as Lake.open('./lake') or Lake.open('s3://bucket/lake')",
        )
    if options:
        raise InvalidInputError("options can be given with a URL, but not with a store that is open already")
    return place


def _hadoop_store(url: str) -> Store:
    # Imported here, because Spark is not needed before rows are moved.
    from headgate.spark.store.hadoop import open_hadoop_store

    return open_hadoop_store(url)
