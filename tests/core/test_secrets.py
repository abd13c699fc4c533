"""No credential reaches the log, in whatever shape it was given."""

from __future__ import annotations

import pytest

from headgate.core.secrets import clean_text, without_secrets

SECRET = "hunter2hunter2hunter2"


@pytest.mark.parametrize(
    "args",
    [
        ["--password", SECRET],
        [f"--password={SECRET}"],
        ["-password", SECRET],
        ["--db.password", SECRET],
        ["--api-key", SECRET],
        ["--aws-secret-access-key", SECRET],
        [f"s3://{SECRET}@bucket/x"],
        [f"postgres://ann:{SECRET}@db/x"],
        [f"https://account.blob.core.windows.net/c?sv=2024&sig={SECRET}&se=1"],
        [f"https://x/y?X-Amz-Signature={SECRET}"],
        [f"https://x/y?X-Amz-Security-Token={SECRET}&a=b"],
        [f'{{"token": "{SECRET}", "a": 1}}'],
        [f'{{"client_secret":"{SECRET}"}}'],
        [f"{{'password': '{SECRET}'}}"],
        [f'{{\\"password\\": \\"{SECRET}\\"}}'],
        [f"Authorization: Bearer {SECRET}"],
        [f"fs.s3a.secret.key={SECRET}"],
        [f"AWS_SECRET_ACCESS_KEY={SECRET}"],
        [f"AccountKey={SECRET};EndpointSuffix=x"],
        ["AKIAIOSFODNN7EXAMPLE"],
        ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"],
        ["ghp_0123456789abcdefghij"],
    ],
)
def test_a_secret_is_removed(args: list[str]) -> None:
    cleaned = " ".join(without_secrets(args))
    for trace in (SECRET, "AKIA", "eyJ", "ghp_0"):
        assert trace not in cleaned


@pytest.mark.parametrize(
    "args",
    [
        ["nightly", "--day", "2026-11-15"],
        ["s3://bucket/path/key=1/part.parquet"],
        ["--partition-by", "day(ts)"],
        ["where=id = 7"],
        ["https://example.org/a?b=c#d"],
        ["monkey=banana"],
    ],
)
def test_what_is_no_secret_stays(args: list[str]) -> None:
    assert list(without_secrets(args)) == args


def test_an_option_after_a_secret_option_is_not_taken_for_its_value() -> None:
    assert without_secrets(["--token", "--password", SECRET, "load"]) == (
        "--token",
        "--password",
        "***",
        "load",
    )


def test_the_rest_of_the_text_stays_readable() -> None:
    assert clean_text(f"jdbc:x?user=ann&password={SECRET}&ssl=1") == "jdbc:x?user=ann&password=***&ssl=1"
