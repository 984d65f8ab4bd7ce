"""Debian's Apache with APR's pools on reaps, with threads and with processes: the same answers,
also while it restarts and under load, and a request that allocates and frees in a loop stays
small."""

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
    apr_preload,
    ask_all,
    build_modules,
    is_root,
    open_folder,
    upstream,
)

DEBIAN = Path("/usr/lib/apache2/modules")
STANDARD = (
    "alias auth_basic authn_core authn_file authz_core authz_user autoindex deflate dir env"
    " ext_filter filter headers include mime proxy proxy_http rewrite setenvif status substitute"
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
<IfModule !mpm_prefork_module>
  StartServers 1
  MinSpareThreads 4
  ThreadsPerChild 16
  MaxRequestWorkers 32
</IfModule>
<IfModule mpm_prefork_module>
  StartServers 8
  MaxSpareServers 12
  MaxRequestWorkers 12
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
ErrorDocument 404 /1.txt
ExtFilterDefine upper mode=output cmd="/usr/bin/tr a-z A-Z"
ScriptAlias /cgi/ {cgi}/
Alias /ssi/ {ssi}/
Alias /listing {files}
Alias /substituted {files}
Alias /filtered {files}
Alias /guarded {files}
Alias /limited {files}
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
<Location /substituted>
  SetOutputFilter SUBSTITUTE
  Substitute s/some/another/
</Location>
<Location /filtered>
  SetOutputFilter upper
</Location>
<Location /guarded>
  AuthType Basic
  AuthName strata
  AuthUserFile {folder}/users
  Require valid-user
</Location>
<LocationMatch "^/(cgi/)?limited">
  LimitRequestBody 1000
</LocationMatch>
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
USERS = "anna:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n"  # whose password is: password
ANNA = "Basic YW5uYTpwYXNzd29yZA=="


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("apache2")
    return build_modules("apache", tmp_path_factory.mktemp("apache-modules"))


class ApacheSite(Site):
    stop_signal = signal.SIGWINCH
    restart_signal = signal.SIGUSR1
    lost_in_restarts = ("/cgi/", "/ssi/")  # the daemon that starts scripts is restarted at once
    bad_lines = (":crit]", ":alert]", ":emerg]", "exit signal", "Memory allocation", "strata:")

    def __init__(
        self, lab: Lab, folder: Path, modules: Path, mpm: str, behind: int, scripts: bool
    ) -> None:
        super().__init__(lab, folder, modules)
        self.mpm = mpm
        self.behind = behind
        self.scripts = scripts
        (folder / "cgi").mkdir()
        for name in ("echo.sh", "limited.sh"):
            script = folder / "cgi" / name
            script.write_text(SCRIPT)
            script.chmod(0o755)
        (folder / "ssi").mkdir()
        parts = "".join(f'<!--#include virtual="/{name}" -->\n' for name in self.names[6:])
        page = parts + '<!--#exec cgi="/cgi/echo.sh" -->\n'
        (folder / "ssi" / "page.shtml").write_text(page)

    def command(self, configuration: Path) -> list[str | Path]:
        return [need("apache2"), "-DFOREGROUND", "-f", configuration]

    def environment(self) -> dict[str, str] | None:
        # The processes of prefork fork their scripts themselves: see docs/servers.md.
        alone = self.mpm == "prefork" and self.scripts
        setting = {"STRATA_BACKGROUND": "off"} if alone else {}
        return {"LD_PRELOAD": apr_preload(self.lab)} | setting

    def configuration(self, port: int, *, reaps: bool, more: str = "") -> tuple[Path, Path]:
        own = self.folder / ("reaps" if reaps else "stock")
        own.mkdir(exist_ok=True)
        (own / "users").write_text(USERS)
        cgi = "cgi" if self.mpm == "prefork" else "cgid"
        names = [f"mpm_{self.mpm}", *STANDARD.split(), cgi]
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

    def requests(self) -> list[Asked]:
        asked = [Asked(f"/{name}") for name in self.names]
        asked += [Asked(f"/proxied/{name}") for name in self.names[:8]]
        asked += [Asked(f"/{n}", headers={"Accept-Encoding": "gzip"}) for n in self.names]
        asked += [Asked(f"/substituted/{name}") for name in self.names[3:8]]
        asked += [Asked("/filtered/5.txt"), Asked("/guarded/5.txt")]
        asked += [Asked("/guarded/5.txt", headers={"Authorization": ANNA})]
        asked += [Asked("/5.txt", headers={"Range": "bytes=10-20,500-900"})]
        asked += [Asked("/5.txt", headers={"Range": "bytes=9999999-"})]
        asked += [Asked("/5.txt", headers={"If-Modified-Since": UNCHANGED_SINCE})]
        asked += [Asked("/5.txt", headers={"Host": "no host"}), Asked("/5.txt", "POST", body=b"b")]
        asked += [Asked(f"/rewritten/{self.names[3]}"), Asked("/absent"), Asked("/listing/")]
        asked += [Asked("/1.txt", "HEAD"), Asked("/" + "x" * 9000)]
        asked += [Asked("/proxied/sink", "POST", body=b"b" * size) for size in (10, 3_000_000)]
        asked += [Asked("/limited/5.txt", "POST", body=b"b" * 20_000)]
        long = {f"X-Header-{n}": "y" * 700 for n in range(20)}
        asked += [Asked("/2.bin?long", headers=long)]
        return asked + (self.requests_of_scripts() if self.scripts else [])

    def requests_of_scripts(self) -> list[Asked]:
        sizes = (0, 10, 30_000)
        asked = [Asked("/cgi/echo.sh?posted", "POST", body=b"b" * size) for size in sizes]
        asked += [Asked("/cgi/limited.sh", "POST", body=b"b" * 20_000)]
        return [*asked, Asked("/ssi/page.shtml")]


def make_site(lab: Lab, modules: Path, mpm: str, *, scripts: bool) -> Iterator[ApacheSite]:
    lab.require_strata()
    with open_folder() as folder, upstream() as behind:
        yield ApacheSite(lab, folder, modules, mpm, behind, scripts)


@pytest.fixture(scope="module", params=["event", "worker", "prefork"])
def site(lab: Lab, modules: Path, request: pytest.FixtureRequest) -> Iterator[ApacheSite]:
    """Each as it is without a setting. Scripts of prefork have a test of their own."""
    yield from make_site(lab, modules, request.param, scripts=request.param != "prefork")


@pytest.fixture(scope="module")
def expected(site: ApacheSite) -> list[Answer]:
    return expectations.answers(site)


def test_answers_are_the_same(site: ApacheSite, expected: list[Answer]) -> None:
    expectations.expect_same_answers(site, expected)


def test_restarts_gracefully_under_load(site: ApacheSite, expected: list[Answer]) -> None:
    expectations.expect_restarts_under_load(site, expected, restarts=2)


@pytest.mark.parametrize("site", ["event", "prefork"], indirect=True)
def test_memory_stays_under_load(site: ApacheSite) -> None:
    expectations.expect_memory_to_stay_under_load(site)


def test_a_loop_of_allocations_stays_small(site: ApacheSite) -> None:
    expectations.expect_a_loop_to_stay_small(site)


# ---- a process with one thread that forks its scripts


@pytest.fixture(scope="module")
def alone(lab: Lab, modules: Path) -> Iterator[ApacheSite]:
    yield from make_site(lab, modules, "prefork", scripts=True)


def test_scripts_of_prefork(alone: ApacheSite) -> None:
    expectations.expect_same_answers(alone, expectations.answers(alone))


# ---- what does not depend on how Apache spreads its work


@pytest.fixture(scope="module")
def event(lab: Lab, modules: Path) -> Iterator[ApacheSite]:
    yield from make_site(lab, modules, "event", scripts=True)


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
