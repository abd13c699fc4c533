"""The error tree: one root, drawn in its docstring, and every error survives a journey between processes."""

from __future__ import annotations

import pickle

import pytest

from headgate import errors
from headgate.core.conflict.detection import Conflict
from headgate.core.conflict.matrix import Verdict
from headgate.transaction.conflicts import TransactionConflictError
from tests.model.test_record import a_record


def all_errors(root: type[errors.HeadgateError] = errors.HeadgateError) -> list[type[errors.HeadgateError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in all_errors(child))]


@pytest.mark.parametrize("kind", all_errors())
def test_an_error_survives_pickling(kind: type[errors.HeadgateError]) -> None:
    again = pickle.loads(pickle.dumps(kind("the problem", "the step")))
    assert type(again) is kind
    assert (again.problem, again.next_step) == ("the problem", "the step")
    assert str(again) == "the problem\n  next: the step"


def test_details_survive_pickling() -> None:
    unknown = pickle.loads(pickle.dumps(errors.CommitUnknownError("x", "y", 7, "ab")))
    assert (unknown.version, unknown.txid) == (7, "ab")
    conflict = Conflict(31, "rule", Verdict.FAIL, a_record(), "because")
    refused = pickle.loads(pickle.dumps(TransactionConflictError("x", conflicts=(conflict,))))
    assert refused.conflicts == (conflict,)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = errors.__doc__ or ""
    public = [kind for kind in all_errors() if kind.__module__ == errors.__name__]
    for kind in public:
        assert kind.__name__ in drawn
    assert len({kind.kind for kind in public}) == len(public)
