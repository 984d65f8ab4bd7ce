"""Debian's nginx with its pools on reaps: the same answers, also while it reloads, and a request
that allocates and frees in a loop stays small."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackbox import Lab, free_port, need
from serving import (
    Answer,
    Asked,
    ask_all,
    build_modules,
    children,
    in_parallel,
    is_root,
    load,
    log_on_failure,
    make_files,
    open_folder,
    peak_kib,
    until,
    wait_for,
)

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
    location /proxied/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_buffers 4 4k; }}
    location /rewritten/ {{ rewrite ^/rewritten/(.*)$ /$1 last; }}
    location /echo {{ return 200 "$args $http_x_long $request_method\\n"; }}
    location /sink {{ proxy_pass http://127.0.0.1:{port}/echo; }}
    location /listing/ {{ alias {files}/; autoindex on; }}
    location /loop {{ pool_loop; }}
    location /included {{ ssi on; default_type text/html; root {folder}/ssi; }}
  }}
}}
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("nginx")
    return build_modules("nginx", tmp_path_factory.mktemp("nginx-modules"))


class Site:
    """Files, a configuration for each kind of pool, and servers over them."""

    def __init__(self, lab: Lab, folder: Path, modules: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.modules = modules
        self.names = make_files(folder / "files")
        page = folder / "ssi" / "included"
        page.mkdir(parents=True)
        parts = "".join(f'<!--#include virtual="/{name}" -->\n' for name in self.names[6:])
        (page / "page.html").write_text(parts + '<!--#echo var="request_uri" -->\n')

    def configuration(self, port: int, *, reaps: bool) -> tuple[Path, Path]:
        own = self.folder / ("reaps" if reaps else "stock")
        own.mkdir(exist_ok=True)
        names = ["ngx_strata_module"] if reaps else []
        loaded = [
            f"load_module {self.modules}/{n}.so;" for n in [*names, "ngx_http_pool_loop_module"]
        ]
        text = CONFIGURATION.format(
            modules="\n".join(loaded),
            held="$strata_held" if reaps else "-",
            user="user root;" if is_root() else "",
            folder=own,
            files=self.folder / "files",
            port=port,
        )
        (own / "ssi").unlink(missing_ok=True)
        (own / "ssi").symlink_to(self.folder / "ssi")
        path = own / "nginx.conf"
        path.write_text(text)
        return path, own

    @contextlib.contextmanager
    def server(self, *, reaps: bool) -> Iterator[tuple[int, subprocess.Popen[str], Path]]:
        port = free_port()
        path, own = self.configuration(port, reaps=reaps)
        console = own / "console"
        started = self.lab.start(
            need("nginx"),
            "-c",
            path,
            "-p",
            own,
            preload=reaps,
            stdout=console.open("w"),
            stderr=subprocess.STDOUT,
        )
        with started as process, log_on_failure(own / "error.log"):
            wait_for(port, process)
            yield port, process, own
        assert console.read_text() == ""

    def requests(self) -> list[Asked]:
        asked = [Asked(f"/{name}") for name in self.names]
        asked += [Asked(f"/proxied/{name}") for name in self.names]
        asked += [Asked(f"/{n}", headers={"Accept-Encoding": "gzip"}) for n in self.names]
        asked += [Asked("/5.txt", headers={"Range": "bytes=10-20,500-9000,-7"})]
        asked += [Asked(f"/rewritten/{self.names[3]}"), Asked("/absent"), Asked("/listing/")]
        asked += [
            Asked("/1.txt", "HEAD"),
            Asked("/echo?" + "x" * 3000),
            Asked("/included/page.html"),
        ]
        long = {f"X-Header-{n}": "y" * 700 for n in range(20)} | {"X-Long": "z" * 3000}
        asked += [Asked("/echo?long", headers=long)]
        asked += [
            Asked("/sink?posted", "POST", body=b"b" * size) for size in (0, 10, 20_000, 900_000)
        ]
        return asked


@pytest.fixture(scope="module")
def site(lab: Lab, modules: Path) -> Iterator[Site]:
    lab.require_strata()
    with open_folder() as folder:
        yield Site(lab, folder, modules)


@pytest.fixture(scope="module")
def expected(site: Site) -> list[Answer]:
    with site.server(reaps=False) as (port, _, _):
        return ask_all(port, site.requests())


def quiet(own: Path) -> None:
    """Nothing went wrong in the server's eyes."""
    lines = (own / "error.log").read_text().splitlines()
    bad = [line for line in lines if any(f"[{w}]" in line for w in ("alert", "emerg", "crit"))]
    assert not bad, bad[:5]


def test_answers_are_the_same(site: Site, expected: list[Answer]) -> None:
    assert sum(answer.status == 200 for answer in expected) > 50
    assert {206, 404} <= {answer.status for answer in expected}
    with site.server(reaps=True) as (port, process, own):
        got = ask_all(port, site.requests())
        for asked, one, other in zip(site.requests(), got, expected, strict=True):
            assert one == other, asked
        in_parallel(port, site.requests(), expected, threads=6)
        process.send_signal(signal.SIGQUIT)
        assert process.wait(timeout=60) == 0
        quiet(own)
        held = [int(line.split()[1]) for line in (own / "access.log").read_text().splitlines()]
        assert len(held) >= 7 * len(expected) and min(held) > 0


def test_reloads_under_load(site: Site, expected: list[Answer]) -> None:
    with site.server(reaps=True) as (port, process, own):
        for _ in range(3):
            before = set(children(process.pid))
            process.send_signal(signal.SIGHUP)
            in_parallel(port, site.requests(), expected, threads=3)
            until("old workers are gone", lambda b=before: not b & set(children(process.pid)))
        process.send_signal(signal.SIGQUIT)
        assert process.wait(timeout=60) == 0
        quiet(own)


@pytest.mark.parametrize("options", [(), ("-k",)])
def test_load_is_answered(site: Site, options: tuple[str, ...]) -> None:
    with site.server(reaps=True) as (port, _, own):
        load(port, f"/{site.names[3]}", *options)
        load(port, f"/proxied/{site.names[1]}", *options)
        quiet(own)


def test_a_loop_of_allocations_stays_small(site: Site) -> None:
    """The denial-of-service case. 300,000 objects of 400 bytes are 114 MiB."""
    loop = [Asked("/loop?n=300000&size=400&pace=0")]
    with site.server(reaps=False) as (port, process, _):
        (answer,) = ask_all(port, loop)
        assert answer.body == b"allocated 300000, freed 0\n"
        assert peak_kib(process.pid) > 110 << 10, "nginx's own pool keeps all of it"
    with site.server(reaps=True) as (port, process, _):
        (answer,) = ask_all(port, loop)
        assert answer.body == b"allocated 300000, freed 300000\n"
        assert peak_kib(process.pid) < 40 << 10


def test_without_the_preload_it_says_what_is_missing(site: Site) -> None:
    path, own = site.configuration(free_port(), reaps=True)
    result = site.lab.run(need("nginx"), "-t", "-c", path, "-p", own, preload=False)
    assert result.returncode == 1, result.explain()
    assert "needs libstrata.so preloaded" in result.stderr, result.explain()


def test_the_configuration_is_checked(site: Site) -> None:
    path, own = site.configuration(free_port(), reaps=True)
    result = site.lab.run(need("nginx"), "-t", "-c", path, "-p", own)
    assert result.returncode == 0 and "test is successful" in result.stderr, result.explain()
