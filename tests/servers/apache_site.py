"""Debian's Apache, configured so that requests meet many of its modules, with any of its MPMs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackbox import Lab, need
from serving import (
    UNCHANGED_SINCE,
    Asked,
    Site,
    apr_preload,
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
        if scripts:  # a restart that meets the script daemon before it is set up breaks it
            self.settled = Asked("/cgi/echo.sh")
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


def apache_site(
    lab: Lab, builds: pytest.TempPathFactory, mpm: str, *, scripts: bool
) -> Iterator[ApacheSite]:
    lab.require_strata()
    need("apache2")
    modules = build_modules("apache", builds.getbasetemp() / "apache-modules")
    with open_folder() as folder, upstream() as behind:
        yield ApacheSite(lab, folder, modules, mpm, behind, scripts)
