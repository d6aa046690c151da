"""Benchmarks are run one by one, resumed, and shown beside what is asked; no script is left out."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

runner = pytest.importorskip(
    "benchmarks.__main__", reason="benchmarks are not here: the tests of an installed package"
)
from benchmarks import asked, machine, measuring, table  # noqa: E402
from benchmarks.asked import AIMS, Aim  # noqa: E402
from benchmarks.running import ROOT, code_of, read, results  # noqa: E402

GOOD = """
import sys
from pathlib import Path
from beside import WORD
if __name__ == "__main__":
    with Path("runs").open("a") as file:
        file.write("good")
    print("how it is said")
    print('{"row": "%s", "flags": "%s", "times_as_fast": 3.0}' % (WORD, " ".join(sys.argv[1:])))
"""
BAD = """
if __name__ == "__main__":
    print('{"row": "before it broke"}', flush=True)
    raise SystemExit("no such file of mine")
"""
SLOW = """
import time
if __name__ == "__main__":
    time.sleep(60)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with three scripts, the first of which fails."""
    topic = tmp_path / "benchmarks" / "topic"
    topic.mkdir(parents=True)
    for name, text in (("bad", BAD), ("good", GOOD), ("beside", "WORD = 'one'\n")):
        (topic / f"{name}.py").write_text(text)
    return tmp_path


def main(root: Path, monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "-o", str(root / "out"), *flags])
    runner.main(root)


def n_runs(root: Path) -> int:
    return (root / "runs").read_text().count("good")


def test_the_others_go_on_when_one_fails(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(root, monkeypatch)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "failed: python benchmarks/topic/bad.py\n"
    (bad, before), (good, lines) = (results(root / "out")[f"topic-{n}"] for n in ("bad", "good"))
    assert (bad["exit_code"], bad["error"]) == (1, ["no such file of mine"])
    assert before == [{"row": "before it broke"}]
    assert lines == [{"row": "one", "flags": "", "times_as_fast": 3.0}]
    assert (good["exit_code"], good["commit"]) == (0, None)  # no repository there
    assert good["processor_s"] > 0
    table_text = (root / "out" / "table.md").read_text()
    assert "**`benchmarks/topic/bad.py` failed**: 1" in table_text
    assert json.loads((root / "out" / "machine.json").read_text()) == machine.described()


def test_what_is_there_is_run_again_when_its_code_or_flags_change(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = ("--only", "topic/good.py")
    main(root, monkeypatch, *alone)
    main(root, monkeypatch, *alone)
    assert n_runs(root) == 1
    main(root, monkeypatch, *alone, "--again")
    assert n_runs(root) == 2
    (root / "benchmarks/topic/beside.py").write_text("WORD = 'two'\n")
    main(root, monkeypatch, *alone)
    assert n_runs(root) == 3
    (root / "kept").mkdir()
    (root / "kept/faster.py").write_text("")
    main(root, monkeypatch, *alone)
    assert n_runs(root) == 4
    monkeypatch.setitem(runner.FLAGS, "topic/good.py", "--rows 'a b'")
    main(root, monkeypatch, *alone)
    assert n_runs(root) == 5
    assert results(root / "out")["topic-good"][1][0]["flags"] == "--rows a b"
    monkeypatch.setitem(runner.LARGE, "topic/good.py", "--much")
    main(root, monkeypatch, "--large")
    assert results(root / "out")["topic-good-large"][1][0]["flags"] == "--much"


def test_a_script_is_ended_at_the_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "benchmarks/topic/slow.py").write_text(SLOW)
    with pytest.raises(SystemExit):
        main(root, monkeypatch, "--only", "topic/slow.py", "--limit", "0.2")
    assert read(root / "out/topic-slow.jsonl")[0]["exit_code"] == "ended after 0 s"


def test_results_of_another_machine_are_not_mixed_in(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(root, monkeypatch, "--only", "topic/good.py")
    monkeypatch.setattr(runner, "described", lambda: {"processor": "another"})
    with pytest.raises(SystemExit, match="another machine"):
        main(root, monkeypatch)


RUN = {"script": "benchmarks/t/s.py", "flags": "", "exit_code": 0, "commit": "abc",
       "changed": False, "begun": "2026-01-02 03:04", "seconds": 5.0, "processor_s": 4.0,
       "load_before": 0.1, "load_after": 0.2}  # fmt: skip


def judged(line: dict[str, Any], **bounds: Any) -> list[str]:
    aim = Aim("work", "t/s.py", {"row": "r"}, **bounds)
    return table.judged(aim, {"t-s": (RUN, [{"row": "r", "at": 1}, line])})


@pytest.mark.parametrize(
    ("line", "bounds", "state"),
    [
        ({"row": "r", "times_as_fast": 3.0, "n": 5}, {"at_least": 2, "aim": 3}, table.AIM),
        ({"row": "r", "times_as_fast": 2.0}, {"at_least": 2, "aim": 3}, table.MET),
        ({"row": "r", "times_as_fast": 1.9}, {"at_least": 2}, table.SHORT),
        ({"row": "r", "times_as_fast": 9.0, "equal": False}, {"at_least": 2}, table.SHORT),
        ({"row": "r", "s": 0.3}, {"value": "s", "at_most": 0.4, "aim": 0.2}, table.MET),
        ({"row": "r", "s": 0.5}, {"value": "s", "at_most": 0.4, "aim": 0.2}, table.SHORT),
        ({"row": "r", "a": 10, "b": 4}, {"value": "a/b", "at_least": 2.6}, table.SHORT),
        ({"row": "r", "b": 4}, {"value": "a/b", "at_least": 2.6}, table.UNKNOWN),
        ({"row": "other", "times_as_fast": 9.0}, {"at_least": 2}, table.UNKNOWN),
    ],
)
def test_a_row_is_judged(line: dict[str, Any], bounds: dict[str, Any], state: str) -> None:
    assert judged(line, **bounds)[-1] == state


def test_what_falls_short_stands_first() -> None:
    lines = [
        {
            "row": "fine",
            "times_as_fast": 5.0,
            "texts": 1000,
            "kept_ms": 2.0,
            "peer_ms": 10.0,
            "floor_s": 1.0,
        },
        {"row": "slow", "times_as_fast": 1.0},
        {"row": "fine", "of": "texts", "sizes": [10, 1000], "kept_exponent": 1.0, "n_log_n": 1.24},
        {"row": "slow", "of": "texts", "sizes": [10, 1000], "kept_exponent": 2.0, "n_log_n": 1.24},
    ]
    lines.append({"row": "dgl", "skipped": "no module dgl"})
    rows = [Aim(name, "t/s.py", {"row": name}, at_least=2) for name in ("fine", "slow", "none")]
    page = table.page({"t-s": (RUN, lines)}, machine.described(), rows)
    failing, grown = page.partition("## As work grows")[::2]
    assert [failing.index(f"| {name} |") for name in ("slow", "none", "fine")] == sorted(
        failing.index(f"| {name} |") for name in ("slow", "none", "fine")
    )
    assert grown.index("| slow |") < grown.index("| fine |")
    assert "1 of 3 rows reach what is required; 1 of 2 costs grow no faster than n log n" in page
    assert "- `t/s.py`: dgl: no module dgl" in page
    assert "| 1,000 texts | 2 ms | 10 ms | 1 s | 5 | at least 2 |  | met" in page


def test_growth_is_fitted(capsys: pytest.CaptureFixture[str]) -> None:
    measuring.growth("r", "texts", [10, 100, 1000], [1.0, 100.0, 10_000.0], [1.0, 1.0, 1.0])
    line = json.loads(capsys.readouterr().out)
    assert (line["kept_exponent"], line["peer_exponent"]) == (2.0, 0.0)
    assert 1.2 < line["n_log_n"] < 1.3


def test_all_run_once_before_any_runs_again() -> None:
    calls: list[str] = []
    best = measuring.in_turn([lambda: calls.append("a"), lambda: calls.append("b")], 3)
    assert calls == ["a", "b"] * 3
    assert len(best) == 2


# ---- the scripts that are there ------------------------------------------------------------------
def test_flags_and_reasons_are_of_scripts_that_are_there() -> None:
    named = {*asked.FLAGS, *asked.LARGE, *asked.NO_GROWTH, *(each.script for each in AIMS)}
    assert named <= set(runner.scripts())
    assert set(asked.SMALL) == set(runner.scripts())
    assert not set(asked.BY_HAND) & named
    topics = [ROOT / "benchmarks" / name for name in asked.BY_HAND]
    assert all("__main__" in path.read_text("utf-8") for path in topics)
    assert {each.script for each in AIMS if each.large} <= set(asked.LARGE)


@pytest.mark.parametrize("script", runner.scripts())
def test_each_script_fits_how_its_cost_grows_or_says_why_not(script: str) -> None:
    fits = "growth(" in (ROOT / "benchmarks" / script).read_text("utf-8")
    assert fits != (script in asked.NO_GROWTH)


@pytest.mark.parametrize("row", AIMS, ids=lambda row: row.work)
def test_each_bound_is_of_a_row_that_its_script_prints(row: Aim) -> None:
    """As far as texts tell: each word of the row and each field stand in the script's."""
    texts = (f"benchmarks/{row.script}", "benchmarks/measuring.py", "kept/methods.py")
    text = "".join((ROOT / name).read_text("utf-8") for name in texts).replace("_", "")
    words = [*row.where, *row.value.split("/")]
    words += re.findall(r"[^\s,]+", " ".join(map(str, row.where.values())))
    assert [word for word in words if word.replace("_", "") not in text] == []


COMMITTED = sorted((ROOT / "benchmarks").glob("results*/machine.json"))
"""One folder for each machine."""


@pytest.mark.parametrize("described", COMMITTED, ids=lambda path: path.parent.name)
def test_a_committed_table_is_of_its_lines(described: Path) -> None:
    machine_of_table = json.loads(described.read_text("utf-8"))
    lines = results(described.parent)
    table_page = (described.parent / "table.md").read_text("utf-8")
    assert table_page == table.page(lines, machine_of_table)


def test_each_row_of_a_script_that_ended_is_measured_on_some_machine() -> None:
    """With the flags of today: others may leave rows out."""
    every = [results(described.parent) for described in COMMITTED]
    ended = {(name, run["flags"]) for lines in every for name, (run, _) in lines.items()
             if run["exit_code"] == 0}  # fmt: skip
    for row in AIMS:
        (job,) = runner.jobs([row.script], large=row.large)
        if (job.name, job.flags) in ended:
            verdicts = {table.judged(row, lines)[-1] for lines in every}
            assert verdicts != {table.UNKNOWN}, row.work


def test_a_small_trial_goes_to_a_folder_of_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(runner.SMALL, "topic/good.py", "--tiny")
    main(root, monkeypatch, "--only", "topic/good.py", "--small")
    assert read(root / "out" / "topic-good.jsonl")[1][0]["flags"] == "--tiny"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--small"])
    with pytest.raises(SystemExit):
        runner.main(root)


def test_results_go_to_the_folder_of_this_machine(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, facts in (("results", {"processor": "another"}), ("results-b", machine.described())):
        folder = root / "benchmarks" / name
        folder.mkdir()
        (folder / "machine.json").write_text(json.dumps(facts))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "topic/good.py"])
    runner.main(root)
    paths = [path.parent.name for path in root.glob("benchmarks/*/topic-good.jsonl")]
    assert paths == ["results-b"]


def test_one_script_takes_flags_of_the_command(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(root, monkeypatch, "--only", "topic/good.py", "--flags", "--only plain")
    run, (line,) = read(root / "out" / "topic-good.jsonl")
    assert (run["flags"], line["flags"]) == ("--only plain", "--only plain")
    with pytest.raises(SystemExit):
        main(root, monkeypatch, "--flags", "--quick")


def test_the_hash_covers_what_a_script_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = runner.jobs(["graphs/wordgraphs.py"], large=False)
    before = code_of(job)
    monkeypatch.setenv("KEPT_DATA", "x")
    with_data = code_of(job)
    monkeypatch.delenv("KEPT_DATA")
    assert before in (with_data, code_of(job))
    assert with_data != code_of(job)
