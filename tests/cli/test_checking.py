"""`headgate fsck` and `headgate rebuild-control`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headgate as hg
from headgate.core.fsck.kinds import KINDS
from tests.cli.program import run, run_json
from tests.steward.shop import Scene, fingerprint, make


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    make(tmp_path / "lake", "conditional")
    return Scene(tmp_path / "lake")


def test_a_whole_lake(scene: Scene) -> None:
    result = run("fsck", scene.root)
    assert result.exit_code == 0
    assert result.output.startswith(f"version {scene.head}: no damage, 0 notes; {scene.head} records, ")
    found = run_json("fsck", scene.root, "--deep")
    assert (found["ok"], found["version"], found["findings"]) == (True, scene.head, [])
    assert found["checked"]["files read"] > 0
    assert run_json("fsck", scene.root, "--all-versions")["checked"]["table versions"] > 3


def test_damage_is_told_with_what_to_do_and_ends_with_1(scene: Scene) -> None:
    lost = scene.data_file()
    lost.unlink()
    before = fingerprint(scene.root)
    result = run("fsck", scene.root)
    assert result.exit_code == 1
    head, line, last = result.output.splitlines()
    assert head.split("\t") == ["", "kind", "where", "what is wrong", "what to do"]
    assert line.split("\t")[:3] == ["damage", "file-missing", str(lost.relative_to(scene.root))]
    assert "backup" in line.split("\t")[4]
    assert last.startswith(f"version {scene.head}: 1 damaged, 0 notes; ")
    shown = run("fsck", scene.root, "--json")
    assert shown.exit_code == 1
    (found,) = json.loads(shown.stdout)["findings"]
    assert set(found) == set(hg.Finding.__dataclass_fields__)
    assert (found["severity"], found["kind"]) == ("damage", "file-missing")
    assert fingerprint(scene.root) == before


def test_notes_end_with_0(scene: Scene) -> None:
    scene.hint().unlink()
    result = run("fsck", scene.root)
    assert result.exit_code == 0
    assert "note\thint-missing" in result.output
    assert "no damage, 1 note;" in result.output


def test_a_lake_that_does_not_open(scene: Scene) -> None:
    scene.record(scene.head).write_text("{")
    assert run("show", scene.root).exit_code == 1
    result = run("fsck", scene.root)
    assert result.exit_code == 1 and "record-unreadable" in result.output


def test_control_characters_from_storage_are_escaped(scene: Scene) -> None:
    (scene.root / "control/log/\x1b[31mred").write_text("")
    result = run("fsck", scene.root)
    assert "\x1b" not in result.output and r"\x1b[31mred" in result.output


def test_no_lake(tmp_path: Path) -> None:
    result = run("fsck", tmp_path / "nowhere")
    assert result.exit_code == 1 and "there is no lake" in result.output


def test_rebuild_control_mends_what_is_derived(scene: Scene) -> None:
    scene.entry(3).unlink()
    scene.checkpoint(8).write_text("{")
    (scene.root / "control/txn/stray.json").write_text("{}")
    assert run("fsck", scene.root).exit_code == 1
    result = run("rebuild-control", scene.root)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"up to version {scene.head}: {scene.head} control entries, {scene.head // 4} checkpoints, "
        "3 tables published",
        "removed control/txn/stray.json",
    ]
    assert run("fsck", scene.root).exit_code == 0
    again = run_json("rebuild-control", scene.root)
    assert (again["until"], again["removed"], again["not_published"]) == (scene.head, [], [])


def test_the_page_has_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs/recovery.md").read_text()
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.severity.value} | {kind.meaning} |" in page, name
