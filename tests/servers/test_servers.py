"""nginx and Apache with their pools on reaps, Apache with threads and with processes: the same
answers, also while they restart and under load, and a request that allocates and frees in a loop
stays small."""

from __future__ import annotations

from collections.abc import Iterator

import expectations
import pytest
from apache_site import apache_site
from blackbox import Lab, paired
from nginx_site import nginx_site
from serving import Answer, Site

# The pools of prefork are those of event, and worker's threads too: each stands for the other.
STANDS_FOR = {
    "test_memory_stays_under_load": ("event", "prefork"),
    "test_a_loop_of_allocations_stays_small": ("prefork", "worker"),
}


def is_tried(item: pytest.Function) -> bool:
    two = STANDS_FOR.get(item.originalname, ())
    site = item.callspec.params["site"]
    return site not in two or paired(1 + two.index(site))


@pytest.fixture(scope="module", params=["nginx", "event", "worker", "prefork"])
def site(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """Each as it is without a setting. Scripts of prefork have a test of their own."""
    kind = request.param
    if kind == "nginx":
        yield from nginx_site(lab, tmp_path_factory)
    else:
        yield from apache_site(lab, tmp_path_factory, kind, scripts=kind != "prefork")


@pytest.fixture(scope="module")
def expected(site: Site) -> list[Answer]:
    return expectations.answers(site)


def test_answers_are_the_same(site: Site, expected: list[Answer]) -> None:
    expectations.expect_same_answers(site, expected)


def test_restarts_under_load(site: Site, expected: list[Answer]) -> None:
    expectations.expect_restarts_under_load(site, expected, restarts=3)


@pytest.mark.parametrize("site", ["nginx", "event", "prefork"], indirect=True)
def test_memory_stays_under_load(site: Site) -> None:
    expectations.expect_memory_to_stay_under_load(site)


def test_a_loop_of_allocations_stays_small(site: Site) -> None:
    expectations.expect_a_loop_to_stay_small(site)
