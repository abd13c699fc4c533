"""Whole lakes on the S3 API server: the strategy is chosen by what the storage really does."""

from __future__ import annotations

from functools import partial

import pytest

import headgate as hg
from headgate.errors import StorageError, UnsupportedError
from headgate.testing.contracts import race
from tests.servers.s3 import Behaviour, S3Server

pytestmark = pytest.mark.slow

IGNORING = Behaviour(ignore_if_none_match=True)


def commit_some(s3: S3Server, place: str, client: int) -> list[int]:
    lake = hg.Lake.open(place, options=s3.options)
    return [lake.set_properties({f"{client}-{number}": "1"}).version for number in range(5)]


def test_an_honest_storage_gets_the_conditional_strategy(s3: S3Server) -> None:
    lake = hg.Lake.init(s3.url("honest"), options=s3.options)
    assert lake.strategy == "conditional"
    assert lake.doctor().safe


def test_a_storage_that_ignores_conditions_is_found_out(s3: S3Server) -> None:
    place = s3.url("ignoring")
    with s3.behaving(IGNORING):
        with pytest.raises(UnsupportedError):
            hg.Lake.init(place, options=s3.options, strategy="conditional")
        lake = hg.Lake.init(place, options=s3.options)
        assert lake.strategy == "filetracker"
        versions = race([partial(commit_some, s3, place, client) for client in range(3)])
    assert sorted(version for client in versions for version in client) == list(range(1, 16))
    assert len(lake.properties) == 15


def test_racing_writers_lose_nothing(s3: S3Server) -> None:
    place = s3.url("racing")
    lake = hg.Lake.init(place, options=s3.options)
    versions = race([partial(commit_some, s3, place, client) for client in range(4)])
    assert sorted(version for client in versions for version in client) == list(range(1, 21))
    assert len(lake.properties) == 20


def test_a_commit_of_an_up_to_date_handle_decides_with_one_request(s3: S3Server) -> None:
    lake = hg.Lake.init(s3.url("budget"), options=s3.options)
    lake.set_properties({"a": "1"})
    s3.reset_counts()
    lake.set_properties({"a": "2"})
    assert s3.counts().get("PUT") == 2  # the record, and when it is decided its control entry
    assert "LIST" not in s3.counts()


def test_a_lake_in_a_bucket_that_is_missing_is_not_an_empty_place(s3: S3Server) -> None:
    with pytest.raises(StorageError, match="NoSuchBucket"):
        hg.Lake.open("s3://no-such-bucket/lake", options=s3.options)
