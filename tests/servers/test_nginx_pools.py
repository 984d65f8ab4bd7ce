"""Debian's nginx with its pools on reaps: the same answers, also while it reloads and under load,
and a request that allocates and frees in a loop stays small."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import expectations
import pytest
from blackbox import Lab, free_port, need
from serving import (
    UNCHANGED_SINCE,
    Answer,
    Asked,
    Site,
    ask_all,
    build_modules,
    is_root,
    open_folder,
)

CASES = Path(__file__).resolve().parent / "nginx_pool_cases"
CONFIGURATION = """
{modules}
daemon off;
{user}
worker_processes 2;
error_log {folder}/error.log info;
pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
  log_format held '$request_uri {held}';
  access_log {folder}/access.log held;
  types {{ text/plain txt; application/octet-stream bin; }}
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  gzip on;
  gzip_types text/plain;
  output_buffers 4 8k;
  map $uri $kind {{ default other; ~^/(?<digits>[0-9]+)\\.txt$ text; }}
  server {{
    listen 127.0.0.1:{port};
    root {files};
    keepalive_requests 100000;
    client_max_body_size 4m;
    add_header X-Kind $kind;
    error_page 404 @absent;
    location @absent {{ return 404 "there is no $uri\\n"; }}
    location /proxied/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_buffers 4 4k; }}
    location /sliced/ {{
      slice 8k;
      proxy_set_header Range $slice_range;
      proxy_http_version 1.1;
      proxy_pass http://127.0.0.1:{port}/;
    }}
    location /gunzipped/ {{
      gunzip on;
      proxy_set_header Accept-Encoding gzip;
      proxy_http_version 1.1;
      proxy_pass http://127.0.0.1:{port}/;
    }}
    location /authorized/ {{ auth_request /gate; alias {files}/; }}
    location = /gate {{ internal; proxy_pass http://127.0.0.1:{port}/echo; }}
    location /limited/ {{ limit_except PUT {{ deny all; }} alias {files}/; }}
    location /substituted/ {{
      sub_filter some another;
      sub_filter_once off;
      sub_filter_types *;
      alias {files}/;
    }}
    location /wrapped/ {{
      add_before_body /1.txt;
      add_after_body /echo;
      addition_types *;
      alias {files}/;
    }}
    location /rewritten/ {{ rewrite ^/rewritten/(.*)$ /$1 last; }}
    location /echo {{ return 200 "$args $http_x_long $request_method\\n"; }}
    location /sink {{ proxy_pass http://127.0.0.1:{port}/echo; }}
    location /listing/ {{ alias {files}/; autoindex on; }}
    location /loop {{ pool_loop; }}
    location /case {{ pool_case; }}
    location /included {{ ssi on; default_type text/html; root {folder}/ssi; }}
    {more}
  }}
}}
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("nginx")
    return build_modules("nginx", tmp_path_factory.mktemp("nginx-modules"), CASES)


class NginxSite(Site):
    stop_signal = signal.SIGQUIT
    restart_signal = signal.SIGHUP
    bad_lines = ("[alert]", "[emerg]", "[crit]")

    def __init__(self, lab: Lab, folder: Path, modules: Path) -> None:
        super().__init__(lab, folder, modules)
        page = folder / "ssi" / "included"
        page.mkdir(parents=True)
        parts = "".join(f'<!--#include virtual="/{name}" -->\n' for name in self.names[6:])
        (page / "page.html").write_text(parts + '<!--#echo var="request_uri" -->\n')

    def command(self, configuration: Path) -> list[str | Path]:
        return [need("nginx"), "-c", configuration, "-p", configuration.parent]

    def configuration(self, port: int, *, reaps: bool, more: str = "") -> tuple[Path, Path]:
        own = self.folder / ("reaps" if reaps else "stock")
        own.mkdir(exist_ok=True)
        # The module of the cases makes a pool before pools are on reaps.
        names = ["ngx_pool_cases_module", "ngx_http_pool_loop_module"]
        names[1:1] = ["ngx_strata_module"] if reaps else []
        (own / "ssi").unlink(missing_ok=True)
        (own / "ssi").symlink_to(self.folder / "ssi")
        path = own / "nginx.conf"
        path.write_text(
            CONFIGURATION.format(
                modules="\n".join(f"load_module {self.modules}/{name}.so;" for name in names),
                held="$strata_held" if reaps else "-",
                user="user root;" if is_root() else "",
                folder=own,
                files=self.folder / "files",
                port=port,
                more=more,
            )
        )
        return path, own

    def requests(self) -> list[Asked]:
        asked = [Asked(f"/{name}") for name in self.names]
        asked += [Asked(f"/proxied/{name}") for name in self.names]
        asked += [Asked(f"/{n}", headers={"Accept-Encoding": "gzip"}) for n in self.names]
        for kind in ("sliced", "gunzipped", "authorized", "limited", "substituted", "wrapped"):
            asked += [Asked(f"/{kind}/{name}") for name in self.names[3:8]]
        asked += [Asked("/5.txt", headers={"Range": "bytes=10-20,500-9000,-7"})]
        asked += [Asked("/5.txt", headers={"Range": "bytes=9999999-"})]
        asked += [Asked("/5.txt", headers={"If-Modified-Since": UNCHANGED_SINCE})]
        asked += [Asked("/5.txt", headers={"Host": "no host"}), Asked("/5.txt", "POST", body=b"b")]
        asked += [Asked(f"/rewritten/{self.names[3]}"), Asked("/absent"), Asked("/listing/")]
        asked += [Asked("/1.txt", "HEAD"), Asked("/included/page.html")]
        asked += [Asked("/echo?" + "x" * size) for size in (3000, 9000)]
        long = {f"X-Header-{n}": "y" * 700 for n in range(20)} | {"X-Long": "z" * 3000}
        asked += [Asked("/echo?long", headers=long)]
        asked += [
            Asked("/sink?posted", "POST", body=b"b" * size)
            for size in (0, 10, 20_000, 3_000_000, 5_000_000)
        ]
        return asked


@pytest.fixture(scope="module")
def site(lab: Lab, modules: Path) -> Iterator[NginxSite]:
    lab.require_strata()
    with open_folder() as folder:
        yield NginxSite(lab, folder, modules)


@pytest.fixture(scope="module")
def expected(site: NginxSite) -> list[Answer]:
    return expectations.answers(site)


def test_answers_are_the_same(site: NginxSite, expected: list[Answer]) -> None:
    expectations.expect_same_answers(site, expected)


def test_reloads_under_load(site: NginxSite, expected: list[Answer]) -> None:
    expectations.expect_restarts_under_load(site, expected, restarts=3)


def test_memory_stays_under_load(site: NginxSite) -> None:
    expectations.expect_memory_to_stay_under_load(site)


def test_a_loop_of_allocations_stays_small(site: NginxSite) -> None:
    expectations.expect_a_loop_to_stay_small(site)


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
