"""Every action that comes with Headgate holds the contract of actions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.hooks import Action, Audit, Command, CommitEvent, Notify, Python, Webhook
from headgate.testing.action_contract import ActionContract
from tests.steward.http_server import web_server


def fails(event: CommitEvent) -> None:
    raise OSError("out of paper")


class TestPython(ActionContract):
    @pytest.fixture
    def action(self) -> Action:
        return Python(lambda event: None)

    @pytest.fixture
    def broken(self) -> Action:
        return Python(fails)


class TestCommand(ActionContract):
    @pytest.fixture
    def action(self) -> Action:
        return Command(["true"])

    @pytest.fixture
    def broken(self) -> Action:
        return Command(["false"])


class TestNotify(ActionContract):
    @pytest.fixture
    def action(self, tmp_path: Path) -> Action:
        return Notify(tmp_path / "events.jsonl")

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Action:
        return Notify(tmp_path / "not there" / "events.jsonl")


class TestAudit(ActionContract):
    @pytest.fixture
    def action(self, tmp_path: Path) -> Action:
        return Audit(tmp_path / "audit.jsonl")

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Action:
        return Audit(tmp_path / "not there" / "audit.jsonl")


class TestWebhook(ActionContract):
    @pytest.fixture
    def action(self) -> Iterator[Action]:
        with web_server() as server:
            yield Webhook(server.url("/ok"))

    @pytest.fixture
    def broken(self) -> Iterator[Action]:
        with web_server() as server:
            yield Webhook(server.url("/500"))
