"""Where a redirect of the endpoint leads, as a fact that goes out before its first byte."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urljoin, urlsplit

from pytest_agentguard._core.events import RedirectOffered, RequestReceived, Witness
from pytest_agentguard._core.plan import Note, Plan


def with_redirect(plan: Plan, request: RequestReceived) -> Plan:
    """The plan that says where it leads, if it is a redirect; with the host as its client named it."""
    location = next((value for name, value in plan.headers if name.lower() == "location"), "")
    if not 300 <= plan.status < 400 or not location:
        return plan
    host = next((value for name, value in request.headers.items() if name.lower() == "host"), "")
    asked = f"http://{host}{request.path}"
    try:
        target = urljoin(asked, location)
        elsewhere = urlsplit(target)[:2] != urlsplit(asked)[:2]
    except ValueError:  # no URL at all, so it leads nowhere
        return plan
    fields = {"request": request.request, "status": plan.status, "location": target, "elsewhere": elsewhere}
    lane = {"lane": request.lane} if request.lane else {}
    note = Note(RedirectOffered, {"witness": Witness.ENDPOINT, **lane, **fields})
    return replace(plan, notes=(*plan.notes, (-1, note)))
