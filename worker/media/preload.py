"""What the fork server loads once, so that no decoder process has to: `sandbox` names this module.

Import it nowhere else.
"""

from __future__ import annotations

import os
import signal
from multiprocessing import spawn

# A supervisor or a terminal ends the service by a signal to the whole group. The decoders must
# outlive that until their parent cancels them, or a shutdown would look like a crash. The fork
# server itself ends as soon as its parent is gone.
if os.getpid() != os.getsid(0):
    os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)

# multiprocessing has every child import its parent's main program again, before anything else.
# That takes a decoder's start from 10 ms to 200 under a console script, and it needs none of it.
for step in ("_fixup_main_from_name", "_fixup_main_from_path"):
    setattr(spawn, step, lambda _: None)

import worker.media.normalise  # noqa: E402 - after what must be set before
import worker.media.probe  # noqa: E402, F401 - the same; loaded for the forks alone
