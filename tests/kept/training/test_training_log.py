"""The log of a run."""

from __future__ import annotations

from pathlib import Path

from kept.training.log import RunLog, StepRecord, draw_curves, read_log


def record(step: int) -> StepRecord:
    return StepRecord(
        step=step, n_steps=9, epoch=0, losses={"words": 2.0, "relations": 1.0}, total_loss=3.0,
        gradient_norm=1.0, row_gradient_norm=None, learning_rate=0.1, nodes_per_second=5.0,
        texts_per_second=0.5, peak_memory_mib=100.0, seconds=float(step),
    )  # fmt: skip


def test_a_resumed_log_drops_what_will_be_done_again_and_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = RunLog(path, resume_step=0)
    for step in (1, 2, 3, 4):
        log.step(record(step))
    log.evaluation(4, {"mrr": 0.5})
    with path.open("a") as file:
        file.write('{"kind": "step", "st')
    resumed = RunLog(path, resume_step=2)
    assert [row["step"] for row in read_log(path)] == [1, 2]
    resumed.step(record(3))
    assert read_log(path)[-1]["losses"] == {"words": 2.0, "relations": 1.0}


def test_curves_are_drawn_with_and_without_scores(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl", resume_step=0)
    draw_curves(tmp_path / "log.jsonl", tmp_path / "empty.png")
    log.step(record(1))
    log.step(record(2))
    draw_curves(tmp_path / "log.jsonl", tmp_path / "one.png")
    log.evaluation(2, {"mrr": 0.5})
    draw_curves(tmp_path / "log.jsonl", tmp_path / "two.png")
    heads = [(tmp_path / f"{n}.png").read_bytes()[:8] for n in ("empty", "one", "two")]
    assert heads == [b"\x89PNG\r\n\x1a\n"] * 3
    assert not list(tmp_path.glob(".*"))
