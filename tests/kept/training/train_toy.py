"""`train_toy.py RUN_DIR [flags]`: train the toy. `--die-at-sync N`: kill -9 itself.

Imports stand under the guard: spawned workers import this file and need none of them.
"""

if __name__ == "__main__":
    import argparse
    import itertools
    import os
    import signal
    import time
    from pathlib import Path

    from kept.training.log import StepRecord
    from kept.training.loop import Resume, train
    from kg_loaders.disk import writing
    from tests.kept.training.stream_toy import ToyData
    from tests.kept.training.training_toy import toy_config, toy_model

    class _Slow:
        """Prints each step, so that the test can kill in the middle, and waits a little."""

        def __init__(self, pause: float) -> None:
            self.pause = pause

        def step(self, record: StepRecord) -> None:
            print(record.step, flush=True)  # noqa: T201  # the test reads it
            time.sleep(self.pause)

        def notice(self, message: str) -> None:
            print(message, flush=True)  # noqa: T201  # the test reads it

    def _die_at_sync(number: int) -> None:
        calls = itertools.count(1)

        def sync(_path: Path) -> None:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        writing.sync = sync

    def main() -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("run", type=Path)
        parser.add_argument("--resume", action="store_true")
        parser.add_argument("--workers", type=int, default=0)
        parser.add_argument("--pause", type=float, default=0.0)
        parser.add_argument("--die-at-sync", type=int, default=0)
        flags = parser.parse_args()
        if flags.die_at_sync:
            _die_at_sync(flags.die_at_sync)
        train(
            toy_model(),
            ToyData(),
            toy_config(workers=flags.workers),
            flags.run,
            reporter=_Slow(flags.pause),
            resume=Resume.LATEST if flags.resume else Resume.NEVER,
        )

    main()
