"""Debian's Apache with APR's pools on reaps: scripts of the prefork MPM, HTTP/2, and what
mod_strata_reap says. What is expected of nginx and Apache alike is in test_servers.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import expectations
import pytest
from apache_site import DEBIAN, ApacheSite, apache_site
from blackbox import Lab, free_port, need
from serving import Asked, ask_all

# ---- a process with one thread that forks its scripts


@pytest.fixture(scope="module")
def alone(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheSite]:
    yield from apache_site(lab, tmp_path_factory, "prefork", scripts=True)


def test_scripts_of_prefork(alone: ApacheSite) -> None:
    expectations.expect_same_answers(alone, expectations.answers(alone))


# ---- what does not depend on how Apache spreads its work


@pytest.fixture(scope="module")
def event(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheSite]:
    yield from apache_site(lab, tmp_path_factory, "event", scripts=True)


def test_http2_over_tls(event: ApacheSite, tmp_path: Path) -> None:
    """Streams of one connection are other threads' work, whose pools are below the connection's."""
    port = free_port()
    made, key = expectations.certificate(tmp_path)
    loads = "".join(f"LoadModule {n}_module {DEBIAN}/mod_{n}.so\n" for n in ("ssl", "http2"))
    more = f"""{loads}
Protocols h2 http/1.1
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
  SSLEngine on
  SSLCertificateFile {made}
  SSLCertificateKeyFile {key}
</VirtualHost>"""
    with event.server(reaps=True, more=more) as (_, process, own):
        expectations.expect_same_over_http2(event, port, tmp_path / "got")
        event.stop(process, own)


def test_the_handler_shows_the_status(event: ApacheSite) -> None:
    with event.server(reaps=True) as (port, _, _):
        (status,) = ask_all(port, [Asked("/reap")])
        assert status.body.startswith(b"pools on reaps: yes\nheld by this request: ")


def test_a_large_request_is_named_in_the_log(event: ApacheSite) -> None:
    with event.server(reaps=True, more="StrataReapWarn 60000") as (port, process, own):
        large = {f"X-{n}": "y" * 4000 for n in range(9)}
        ask_all(port, [Asked("/1.txt"), Asked("/1.txt", headers=large)])
        event.stop(process, own)
        lines = (own / "error.log").read_text().splitlines()
        warnings = [line for line in lines if "the pool of this request holds" in line]
        assert len(warnings) == 1, warnings


@pytest.mark.parametrize("value", ["0", "-5", "12x", "many"])
def test_a_bad_setting_is_refused(event: ApacheSite, value: str) -> None:
    path, _ = event.configuration(free_port(), reaps=True, more=f"StrataReapWarn {value}")
    result = event.lab.run(need("apache2"), "-t", "-f", path, env=event.environment())
    assert result.returncode == 1, result.explain()
    assert "StrataReapWarn takes a number of bytes above 0" in result.stderr, result.explain()


def test_without_the_preload_it_says_so(event: ApacheSite) -> None:
    with event.server(reaps=False) as (port, process, own):
        (status,) = ask_all(port, [Asked("/reap")])
        assert status.body == b"pools on reaps: no\n"
        event.stop(process, own)
        assert "preload libstrata-apr.so" in (own / "error.log").read_text()
