"""The largest numbers that a configuration or a command takes.

Above them a number is a slip: it overflows somewhere, or asks for what no machine has.
"""

from __future__ import annotations

from typing import Literal

MAX_SEED = 2**63 - 1
MAX_COUNT = 10**9
MAX_THREADS = 1024
MAX_MINUTES = 10**7
MAX_RATE = 10
LEAST_RATE = LEAST_MINUTES = 1e-12
"""Of what must be greater than 0: in help, the least that an option takes."""
MAX_WEIGHT = 10**6
CaseName = Literal["smart", "sensitive", "insensitive"]
"""`entity_linking.names.rules.case.Case`, here so that a command line is read without it."""
