"""Debian's nginx with its pools on reaps: HTTP/2, the pool functions as a module sees them, and the
set-up. What is expected of nginx and Apache alike is in test_servers.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import expectations
import pytest
from blackbox import Lab, free_port
from nginx_site import NginxSite, nginx_site
from serving import Asked, ask_all


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NginxSite]:
    yield from nginx_site(lab, tmp_path_factory)


def test_http2_over_tls(site: NginxSite, tmp_path: Path) -> None:
    port = free_port()
    made, key = expectations.certificate(tmp_path)
    more = f"listen 127.0.0.1:{port} ssl http2; ssl_certificate {made}; ssl_certificate_key {key};"
    with site.server(reaps=True, more=more) as (_, process, own):
        expectations.expect_same_over_http2(site, port, tmp_path / "got")
        site.stop(process, own)


# ---- the pool functions themselves, called by a module

CLEANUPS = b" first large later later later".split()


@pytest.mark.parametrize(
    "case",
    [
        "cleanups_run",
        "cleanups_are_reordered",
        "files_are_closed",
        "memory_is_zeroed_and_aligned",
        "containers_grow",
        "what_is_no_block_is_declined",
        "an_earlier_pool_lives_on",
    ],
)
def test_modules_see_the_same(site: NginxSite, case: str) -> None:
    got = []
    for reaps in (False, True):
        with site.server(reaps=reaps) as (port, process, own):
            (answer,) = ask_all(port, [Asked(f"/case?{case}")])
            assert answer.status == 200
            got.append(answer.body)
            site.stop(process, own)
    assert got[0] == got[1] != b""


def test_a_reset_frees_all_but_the_cleanups(site: NginxSite) -> None:
    with site.server(reaps=True) as (port, process, own):
        requests = [Asked("/case?reap_reset_keeps_cleanups")] * 3
        for answer in ask_all(port, requests):
            lines = answer.body.splitlines()
            assert len(lines) == 5
            for line in lines:
                size, bounded, *run = line.replace(b":", b"").split()
                assert bounded == b"bounded", (size, answer.body)
                assert run == CLEANUPS[::-1], (size, answer.body)
        (answer,) = ask_all(port, [Asked("/case?reap_an_earlier_pool_is_reset")])
        assert answer.body == b"bounded: after"
        site.stop(process, own)


def test_a_pools_reap_is_found(site: NginxSite) -> None:
    """By what docs/servers.md names: for std::pmr containers in a pool."""
    with site.server(reaps=True) as (port, process, own):
        (answer,) = ask_all(port, [Asked("/case?reap_is_found")])
        assert answer.body.split(b"\n") == [b"ours freed gone"] * 5 + [b""], answer.body
        site.stop(process, own)


def test_where_the_blocks_of_small_and_of_earlier_pools_lie(site: NginxSite) -> None:
    with site.server(reaps=True) as (port, process, own):
        cases = [
            Asked("/case?reap_a_buffer_is_mallocs"),
            Asked("/case?reap_an_earlier_pool_has_one"),
        ]
        small, earlier = (answer.body for answer in ask_all(port, cases))
        # Every second one stays; when four do, the pool makes its reap, and keeps it.
        assert small == b"malloc freed malloc " * 4 + b"reap freed reap reap", small
        assert earlier == b"one freed after", earlier
        site.stop(process, own)


# ---- what may be wrong with the set-up


def test_without_the_preload_it_says_what_is_missing(site: NginxSite) -> None:
    path, _ = site.configuration(free_port(), reaps=True)
    result = site.lab.run(*site.command(path), "-t", preload=False)
    assert result.returncode == 1, result.explain()
    assert "needs libstrata.so preloaded" in result.stderr, result.explain()


def test_the_configuration_is_checked(site: NginxSite) -> None:
    path, _ = site.configuration(free_port(), reaps=True)
    result = site.lab.run(*site.command(path), "-t")
    assert result.returncode == 0 and "test is successful" in result.stderr, result.explain()
