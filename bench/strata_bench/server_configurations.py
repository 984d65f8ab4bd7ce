"""What nginx and Apache are started with, to be measured: one worker on a port of its own, with all
of its files in one folder. Imports nothing, so that a script for any Python can use it."""

from __future__ import annotations

_NGINX = """
{load}
daemon off;
{main}
error_log {folder}/error.log crit;
pid {folder}/nginx.pid;
events {{ worker_connections 512; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  types {{ text/html html; }}
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    root {folder};
    {server}
  }}
}}
"""
_APACHE = """
ServerRoot {folder}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error.log
{load}
StartServers 1
ServerLimit 1
ThreadsPerChild {threads}
MaxRequestWorkers {threads}
MaxKeepAliveRequests 0
EnableMMAP Off
TypesConfig /etc/mime.types
DocumentRoot {folder}
{more}
"""


def nginx(folder: object, port: int, load: str, main: str, server: str = "") -> str:
    """main: directives of the whole server; server: of the one that answers at the port."""
    return _NGINX.format(folder=folder, port=port, load=load, main=main, server=server)


def apache(
    folder: object, port: int, modules: tuple[str, ...], threads: int, more: str = ""
) -> str:
    """modules: Debian's. more: directives at the end."""
    debian = "/usr/lib/apache2/modules"
    load = "\n".join(f"LoadModule {name}_module {debian}/mod_{name}.so" for name in modules)
    return _APACHE.format(folder=folder, port=port, load=load, threads=threads, more=more)
