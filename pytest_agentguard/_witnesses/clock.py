"""Real time, also where a test has frozen the clock or an agent has replaced what is in ``time``."""

from __future__ import annotations

import time
from functools import partial

now = partial(time.clock_gettime, time.CLOCK_MONOTONIC)  # one clock for all processes of the machine
sleep = partial(time.sleep)
