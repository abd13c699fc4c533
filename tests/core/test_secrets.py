"""No credential reaches the log, in whatever shape it was given."""

from __future__ import annotations

import time

import pytest

from headgate.core.input.secrets import (
    MAX_ARGUMENT,
    clean_text,
    is_secret_name,
    without_secret_values,
    without_secrets,
)

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
        [f"password: {SECRET}"],
        [f"x-api-key: {SECRET}"],
        [f"--header=X-Api-Key: {SECRET}"],
        ["-H", f"Authorization: Digest username=ann, response={SECRET}"],
        [f'{{"Authorization": "Bearer {SECRET}"}}'],
        [f"curl -H 'Authorization: Bearer {SECRET}' https://x"],
        [f'{{"password": ["{SECRET}"]}}'],
        [f'{{"password": "a\\"b{SECRET}"}}'],
        [f'{{"password": "{SECRET}'],
        [f"--password=a&b;c,d {SECRET}"],
        [f"PGPASSWORD=a&b {SECRET}"],
        [f"url=https%3A%2F%2Fx%3Fpassword%3D{SECRET}"],
        [f"postgres://ann:a@b{SECRET}@db/x"],
        [f"postgres://ann:a/b{SECRET}@db/x"],
        ["curl", "-u", f"ann:{SECRET}"],
        ["--dbPwd", SECRET],
        [f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----"],
        [f"-----BEGIN PRIVATE KEY-----\n{SECRET}"],
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
        ["disaster=recovery", "design: round", "--tokenizer", "words"],
        ["http://localhost:9000/a@b"],
        ["run the basic validation"],
        ["-u", "ann"],
        ["--mode", "basic", "orders"],
        ["digest", "of", "orders"],
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


def test_what_was_json_is_json() -> None:
    assert clean_text('{"token": 5, "a": 1}') == '{"token": "***", "a": 1}'
    assert clean_text('{"password": "x", "a": 1}') == '{"password": "***", "a": 1}'


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "passwd",
        "db.Password",
        "secret",
        "client_secret",
        "token",
        "api_key",
        "api-key",
        "apikey",
        "X-Api-Key",
        "access_key",
        "accessKeyId",
        "private_key",
        "privateKey",
        "credential",
        "credentials",
        "authorization",
        "Proxy-Authorization",
        "sas",
        "AWS_SECRET_ACCESS_KEY",
        "session.key",
        "pwd",
        "DB_PWD",
        "passphrase",
    ],
)
def test_names_that_say_secret(name: str) -> None:
    assert is_secret_name(name)
    assert without_secret_values([(name, "x")]) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["owner", "key", "keys", "monkey", "tokenizer", "disaster", "design", "signed", "author", "path"]
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)
    assert without_secret_values([(name, "x")]) == {name: "x"}


@pytest.mark.parametrize(
    "part",
    [
        *(
            "a",
            "-",
            " ",
            '"',
            "secret",
            "x=secret",
            "'secret",
            "basic ",
            "bearer ",
            "password=",
            "password='",
        ),
        *(
            "password=\"x'",
            "password=[",
            "password=\\",
            "password \n",
            "eyJ-",
            "eyJaaaaaaaaaa.",
            "AKIA",
            "sk-",
        ),
        *("://", "://a:b", "://a@", "-----BEGIN PRIVATE KEY-----", "authorization:", "a%3d", "access.", "\\"),
    ],
)
def test_time_does_not_explode_with_length(part: str) -> None:
    """Milliseconds of this process; a search that starts anew at each character needs a minute."""
    text = part * (100_000 // len(part))
    before = time.process_time()
    clean_text(text)
    (kept,) = without_secrets([text])
    assert time.process_time() - before < 5
    assert len(kept) < MAX_ARGUMENT + 100


def test_a_long_argument_is_cut_with_a_mark_after_secrets_are_gone() -> None:
    (kept,) = without_secrets(["x" * (MAX_ARGUMENT - 14) + f" password={SECRET * 100} and more"])
    assert "hunter" not in kept
    assert kept.endswith(" more characters)")
    assert without_secrets(["y" * MAX_ARGUMENT]) == ("y" * MAX_ARGUMENT,)


@pytest.mark.parametrize("escapes", [1, 3, 7])
def test_quotes_that_are_escaped_several_times(escapes: int) -> None:
    quote = "\\" * escapes + '"'
    text = f"{{{quote}token{quote}: {quote}{SECRET}{quote}, {quote}a{quote}: 1}}"
    assert clean_text(text) == text.replace(SECRET, "***")


@pytest.mark.parametrize(
    "args",
    [
        ["password:", SECRET],
        ["--password=", SECRET],
        ['{"token":', f'"{SECRET}"}}'],
        ["-H", "Authorization:", "Bearer", SECRET],
        ["-H", "Authorization:", "basic", SECRET],
        ["bearer", SECRET],
        ["-----BEGIN", "RSA", "PRIVATE", "KEY-----", SECRET, "-----END", "RSA", "PRIVATE", "KEY-----"],
        [f"tool --password {SECRET}"],
        [f"tool --password '{SECRET} and more'"],
        [f"https://x/?next=https%3A%2F%2Fann%3A{SECRET}%40db%2Fx"],
        [f"https://hooks.slack.com/services/T0/B0/{SECRET}"],
    ],
)
def test_a_secret_that_is_announced_by_what_stands_before_it(args: list[str]) -> None:
    assert SECRET not in " ".join(without_secrets(args))


def test_names_of_remarks_are_cleaned_too() -> None:
    assert without_secret_values([("ghp_0123456789abcdefghij", "x")]) == {"***": "x"}
