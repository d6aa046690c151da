"""Write the files of the positive control: `python -m experiments.commonsense_questions FOLDER`."""

import sys
from pathlib import Path

from experiments.commonsense_questions.control import write_control

if __name__ == "__main__":
    write_control(Path(sys.argv[1]))
