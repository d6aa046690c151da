"""The start of `kept` and of `python -m kept`: Ctrl-C is answered before anything is loaded."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Load the command line and run it; Ctrl-C meanwhile ends it with a sentence."""
    try:
        from kept.apps.cli import main as run  # here: loading it takes a third of a second

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped by Ctrl-C; run the same command again\n")
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # modules half loaded cannot be taken down in good order
    finally:
        # Python notes an interrupt that left code run by an extension module, even where it was
        # answered, and ends by the signal in place of the exit code; running any code clears that
        exec("")


if __name__ == "__main__":
    main()
