"""What an action of a hook must guarantee, as a suite that any implementation can run; see `contracts`."""

from __future__ import annotations

from headgate.core.conflict.retry import RetryPolicy
from headgate.hooks import Action, Hook
from headgate.lake.lake import Lake
from headgate.model.commit_event import CommitEvent
from headgate.storage.memory import MemoryStore

EVENT = CommitEvent("lake-1", "lake", "/lake", 1, "tx", "commit", tables=({"name": "a.b", "uuid": "u"},))


class ActionContract:
    """For every action. Each test gets an `action` that works, and a `broken` one that does not."""

    def test_it_is_an_action(self, action: Action, broken: Action) -> None:
        assert isinstance(action, Action)
        assert isinstance(broken, Action)

    def test_it_says_what_it_does_in_one_line(self, action: Action) -> None:
        told = action.describe()
        assert told.strip()
        assert told.isprintable()

    def test_it_can_be_repeated(self, action: Action) -> None:
        """A process that dies after the action, and before it records that, runs it again."""
        action.run(EVENT)
        action.run(EVENT)

    def test_a_failure_is_raised(self, broken: Action) -> None:
        raised = ""
        try:
            broken.run(EVENT)
        except Exception as error:  # noqa: BLE001  # an action may raise anything
            raised = str(error)
        assert raised, "the action is broken, but did not raise an error"

    def test_a_failure_does_not_touch_the_commit(self, broken: Action) -> None:
        lake = Lake.init(MemoryStore())
        lake.add_hook(Hook("it", broken, retry=RetryPolicy(attempts=1)))
        assert lake.set_properties({"a": "1"}).hook_failures
        assert dict(lake.properties) == {"a": "1"}
        (left,) = lake.open_hooks()
        assert (left.version, left.run.name) == (1, "it")
        assert left.run.error

    def test_a_success_is_noted(self, action: Action) -> None:
        lake = Lake.init(MemoryStore())
        lake.add_hook(Hook("it", action))
        assert lake.set_properties({"a": "1"}).hook_failures == ()
        assert lake.open_hooks() == ()
