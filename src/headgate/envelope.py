"""What accompanies the changes of a transaction into the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from headgate.core.arguments import app_batch, text_by_name, texts
from headgate.core.secrets import without_secret_values, without_secrets
from headgate.host import Host
from headgate.model.json_object import timestamp
from headgate.model.record import AppBatch, Command


@dataclass(frozen=True, slots=True)
class Envelope:
    """What accompanies the changes: who asked, for which batch, with which remarks."""

    command: Command
    started_at: datetime
    app: AppBatch | None = None
    properties: Mapping[str, str] | None = None

    def remarks(self) -> dict[str, str]:
        """What is also written into the snapshots of the tables, for an audit from there."""
        remarks = {**(self.properties or {}), "headgate.started-at": timestamp(self.started_at)}
        if self.command.args:
            remarks["headgate.command"] = self.command.args[0]
        if self.app is not None:
            remarks |= {"headgate.app": self.app.app, "headgate.batch": str(self.app.batch)}
        return remarks


def make_envelope(
    host: Host, args: Sequence[str], app: tuple[str, int] | None, properties: Mapping[str, str] | None
) -> Envelope:
    """Checks what the caller gave, and removes secrets from it."""
    return Envelope(
        command=Command(without_secrets(texts("args", args)), host.user(), host.name(), host.process()),
        started_at=host.now(),
        app=None if app is None else app_batch(app),
        properties=without_secret_values(text_by_name({} if properties is None else properties).items()),
    )
