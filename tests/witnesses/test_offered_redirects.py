"""A redirect of the endpoint says where it leads, before it leaves."""

from __future__ import annotations

import pytest

from pytest_agentguard._core.plan import Plan
from pytest_agentguard._witnesses.redirects import with_redirect
from pytest_agentguard.events import RedirectOffered, RequestReceived, Witness

REQUEST = RequestReceived(
    witness=Witness.ENDPOINT, lane="a", request="a/r1", path="/v1/x", headers={"Host": "127.0.0.1:80"}
)


@pytest.mark.parametrize(
    ("location", "target", "elsewhere"),
    [
        ("/v1/y", "http://127.0.0.1:80/v1/y", False),
        ("http://127.0.0.1:81/v1/x", "http://127.0.0.1:81/v1/x", True),
        ("https://127.0.0.1:80/v1/x", "https://127.0.0.1:80/v1/x", True),
    ],
)
def test_where_a_redirect_leads_is_the_whole_url(location: str, target: str, elsewhere: bool) -> None:
    plan = with_redirect(Plan(307, (("Location", location),), b""), REQUEST)

    ((_, note),) = plan.notes
    assert note.kind is RedirectOffered
    assert (note.fields["location"], note.fields["elsewhere"]) == (target, elsewhere)
    assert (note.fields["request"], note.fields["lane"]) == ("a/r1", "a")


@pytest.mark.parametrize(
    "plan",
    [
        Plan(200, (("Location", "/v1/y"),), b""),
        Plan(307, (), b""),
        Plan(307, (("Location", "http://["),), b""),
    ],
)
def test_what_leads_nowhere_is_no_redirect(plan: Plan) -> None:
    assert with_redirect(plan, REQUEST) is plan
