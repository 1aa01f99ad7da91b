"""The environment of an agent under test: no proxies, no real keys, nothing of pytest's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

DUMMY = "agentguard-dummy-key"
_CREDENTIAL = re.compile(
    r"(API_?KEY|SECRET|PASSWORD|PASSWD|ACCESS_KEY|PRIVATE_KEY)|_(TOKEN|KEY|CREDENTIALS)$|^TOKEN$"
)
_DROPPED = re.compile(
    r"^(PYTEST_|AGENTGUARD_|SSH_AUTH_SOCK$)|(^|_)(HTTPS?|ALL|FTP|WSS?)_PROXY$|_(BASE_URL|API_BASE)$"
)
_SET = {
    "NO_PROXY": "*",
    "no_proxy": "*",
    "OPENAI_API_KEY": DUMMY,
    "ANTHROPIC_API_KEY": DUMMY,
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",  # what a killed agent had printed is not lost
}
_DEFAULTS = {
    # threads that number crunchers start on import would make every run import the agent anew
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy without proxies, base URLs and pytest's variables; credentials have a dummy value."""
    kept = {
        name: DUMMY if _CREDENTIAL.search(name.upper()) else value
        for name, value in environment.items()
        if not _DROPPED.search(name.upper())
    }
    return {**_DEFAULTS, **kept, **_SET}
