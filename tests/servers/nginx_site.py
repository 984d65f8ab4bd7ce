"""Debian's nginx, configured so that requests meet many of its modules."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackbox import Lab, need
from serving import UNCHANGED_SINCE, Asked, Site, build_modules, is_root, open_folder

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


def nginx_site(lab: Lab, builds: pytest.TempPathFactory) -> Iterator[NginxSite]:
    lab.require_strata()
    need("nginx")
    modules = build_modules("nginx", builds.getbasetemp() / "nginx-modules", CASES)
    with open_folder() as folder:
        yield NginxSite(lab, folder, modules)
