"""Debian's Apache with APR's pools on reaps, with threads and with processes: the same answers,
also while it restarts, and a request that allocates and frees in a loop stays small."""

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
    apr_preload,
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
    upstream,
    wait_for,
)

DEBIAN = Path("/usr/lib/apache2/modules")
STANDARD = (
    "authz_core alias dir mime autoindex deflate filter rewrite status include headers proxy"
    " proxy_http setenvif env"
)
CONFIGURATION = """
ServerRoot {folder}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
{user}
ErrorLog {folder}/error.log
{modules}
<IfModule mpm_event_module>
  StartServers 1
  MinSpareThreads 4
  ThreadsPerChild 16
  MaxRequestWorkers 32
</IfModule>
<IfModule cgid_module>
  ScriptSock {folder}/cgisock
</IfModule>
LogFormat "%U %{{strata-held}}n" held
CustomLog {folder}/access.log held
TypesConfig /etc/mime.types
KeepAlive On
MaxKeepAliveRequests 0
DocumentRoot {files}
ScriptAlias /cgi/ {cgi}/
Alias /ssi/ {ssi}/
ProxyPass /proxied/ http://127.0.0.1:{upstream}/
RewriteEngine On
RewriteRule ^/rewritten/(.*)$ /$1 [PT]
Header set X-Kind "%{{REQUEST_URI}}e"
SetEnvIf Request_URI "\\.txt$" text
AddOutputFilterByType DEFLATE text/plain
<Directory {ssi}>
  Options +Includes
  AddType text/html .shtml
  AddOutputFilter INCLUDES .shtml
</Directory>
<Location /listing>
  Options +Indexes
</Location>
Alias /listing {files}
<Location /loop>
  SetHandler pool-loop
</Location>
<Location /reap>
  SetHandler strata-reap-status
</Location>
{more}
"""
SCRIPT = """#!/bin/sh
echo "Content-Type: text/plain"
echo "X-Method: $REQUEST_METHOD"
echo
echo "query $QUERY_STRING"
cat
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("apache2")
    return build_modules("apache", tmp_path_factory.mktemp("apache-modules"))


class Site:
    """Files, scripts, a configuration for each kind of pool, and servers over them."""

    def __init__(self, lab: Lab, folder: Path, modules: Path, mpm: str, behind: int) -> None:
        self.lab = lab
        self.folder = folder
        self.modules = modules
        self.mpm = mpm
        self.behind = behind
        self.names = make_files(folder / "files")
        (folder / "cgi").mkdir()
        script = folder / "cgi" / "echo.sh"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        (folder / "ssi").mkdir()
        parts = "".join(f'<!--#include virtual="/{name}" -->\n' for name in self.names[6:])
        page = parts + '<!--#exec cgi="/cgi/echo.sh" -->\n<!--#printenv -->\n'
        (folder / "ssi" / "page.shtml").write_text(page.replace("<!--#printenv -->\n", ""))

    def configuration(self, port: int, *, reaps: bool, more: str = "") -> tuple[Path, Path]:
        own = self.folder / ("reaps" if reaps else "stock")
        own.mkdir(exist_ok=True)
        names = [f"mpm_{self.mpm}", *STANDARD.split(), "cgid" if self.mpm == "event" else "cgi"]
        loads = [f"LoadModule {name}_module {DEBIAN}/mod_{name}.so" for name in names]
        ours = ["pool_loop", "strata_reap"]
        loads += [f"LoadModule {name}_module {self.modules}/mod_{name}.so" for name in ours]
        path = own / "apache.conf"
        path.write_text(
            CONFIGURATION.format(
                folder=own,
                port=port,
                upstream=self.behind,
                user="User www-data\nGroup www-data" if is_root() else "",
                modules="\n".join(loads),
                files=self.folder / "files",
                cgi=self.folder / "cgi",
                ssi=self.folder / "ssi",
                more=more,
            )
        )
        return path, own

    @contextlib.contextmanager
    def server(
        self, *, reaps: bool, more: str = ""
    ) -> Iterator[tuple[int, subprocess.Popen[str], Path]]:
        port = free_port()
        path, own = self.configuration(port, reaps=reaps, more=more)
        started = self.lab.start(
            need("apache2"),
            "-DFOREGROUND",
            "-f",
            path,
            preload=reaps,
            env={"LD_PRELOAD": apr_preload(self.lab)} if reaps else None,
            stdout=(own / "console").open("w"),
            stderr=subprocess.STDOUT,
        )
        with started as process, log_on_failure(own / "error.log"):
            wait_for(port, process)
            yield port, process, own
        assert (own / "console").read_text() == ""

    def requests(self) -> list[Asked]:
        asked = [Asked(f"/{name}") for name in self.names]
        asked += [Asked(f"/proxied/{name}") for name in self.names[:8]]
        asked += [Asked(f"/{n}", headers={"Accept-Encoding": "gzip"}) for n in self.names]
        asked += [Asked("/5.txt", headers={"Range": "bytes=10-20,500-900"})]
        asked += [Asked(f"/rewritten/{self.names[3]}"), Asked("/absent"), Asked("/listing/")]
        asked += [Asked("/1.txt", "HEAD"), Asked("/ssi/page.shtml")]
        asked += [
            Asked("/cgi/echo.sh?posted", "POST", body=b"b" * size) for size in (0, 10, 30_000)
        ]
        long = {f"X-Header-{n}": "y" * 700 for n in range(20)}
        return [*asked, Asked("/2.bin?long", headers=long)]


@pytest.fixture(scope="module", params=["event", "prefork"])
def site(lab: Lab, modules: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    lab.require_strata()
    with open_folder() as folder, upstream() as behind:
        yield Site(lab, folder, modules, request.param, behind)


@pytest.fixture(scope="module")
def expected(site: Site) -> list[Answer]:
    with site.server(reaps=False) as (port, _, _):
        return ask_all(port, site.requests())


def quiet(own: Path) -> None:
    """Nothing went wrong in the server's eyes: no crash, no leftover child, no lack of memory."""
    lines = (own / "error.log").read_text().splitlines()
    words = (":crit]", ":alert]", ":emerg]", "exit signal", "Memory allocation", "strata:")
    bad = [line for line in lines if any(word in line for word in words)]
    assert not bad, bad[:5]


def stop(process: subprocess.Popen[str]) -> None:
    """Gracefully: workers end what they do and run the cleanups of their pools."""
    process.send_signal(signal.SIGWINCH)
    assert process.wait(timeout=60) == 0


def test_answers_are_the_same(site: Site, expected: list[Answer]) -> None:
    assert sum(answer.status == 200 for answer in expected) > 40
    assert {206, 404} <= {answer.status for answer in expected}
    with site.server(reaps=True) as (port, process, own):
        got = ask_all(port, site.requests())
        for asked, one, other in zip(site.requests(), got, expected, strict=True):
            assert one == other, asked
        (status,) = ask_all(port, [Asked("/reap")])
        assert status.body.startswith(b"pools on reaps: yes\nheld by this request: ")
        stop(process)
        quiet(own)
        held = [line.split()[1] for line in (own / "access.log").read_text().splitlines()]
        assert len(held) > len(expected) and all(int(h) > 0 for h in held if h != "-")


def test_restarts_gracefully_under_load(site: Site, expected: list[Answer]) -> None:
    with site.server(reaps=True) as (port, process, own):
        for _ in range(2):
            before = set(children(process.pid))
            process.send_signal(signal.SIGUSR1)
            in_parallel(port, site.requests(), expected, threads=4)
            until("old workers are gone", lambda b=before: not b & set(children(process.pid)))
        stop(process)
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
        assert peak_kib(process.pid) > 110 << 10, "APR's own pool keeps all of it"
    with site.server(reaps=True) as (port, process, _):
        (answer,) = ask_all(port, loop)
        assert answer.body == b"allocated 300000, freed 300000\n"
        assert peak_kib(process.pid) < 40 << 10


def test_a_large_request_is_named_in_the_log(site: Site) -> None:
    with site.server(reaps=True, more="StrataReapWarn 60000") as (port, process, own):
        ask_all(
            port,
            [Asked("/1.txt"), Asked("/1.txt", headers={f"X-{n}": "y" * 4000 for n in range(9)})],
        )
        stop(process)
        lines = (own / "error.log").read_text().splitlines()
        warnings = [line for line in lines if "the pool of this request holds" in line]
        assert len(warnings) == 1, warnings


@pytest.mark.parametrize("value", ["0", "-5", "12x", "many"])
def test_a_bad_setting_is_refused(site: Site, value: str) -> None:
    path, _ = site.configuration(free_port(), reaps=True, more=f"StrataReapWarn {value}")
    result = site.lab.run(
        need("apache2"), "-t", "-f", path, env={"LD_PRELOAD": apr_preload(site.lab)}
    )
    assert result.returncode == 1, result.explain()
    assert "StrataReapWarn takes a number of bytes above 0" in result.stderr, result.explain()


def test_without_the_preload_it_says_so(site: Site) -> None:
    with site.server(reaps=False) as (port, process, own):
        (status,) = ask_all(port, [Asked("/reap")])
        assert status.body == b"pools on reaps: no\n"
        stop(process)
        assert "preload libstrata-apr.so" in (own / "error.log").read_text()
