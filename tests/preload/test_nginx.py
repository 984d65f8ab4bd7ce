"""nginx on the library: files arrive as they are, through several workers and a reload."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

from blackbox import Lab, connect, free_port, need

CONFIGURATION = """
daemon off;
{user}
worker_processes 3;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
  access_log off;
  types {{ text/plain txt; application/octet-stream bin; }}
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  gzip on;
  gzip_types text/plain;
  sendfile off;
  output_buffers 4 64k;
  server {{
    listen 127.0.0.1:{port};
    root {folder}/files;
    location /proxied/ {{ proxy_pass http://127.0.0.1:{port}/; }}
  }}
}}
"""


def make_files(folder: Path) -> dict[str, bytes]:
    draw = random.Random(8)
    folder.mkdir()
    sizes = [0, 1, 100, 4095, 4096, 4097, 70_000, 1_000_000, 6_000_000]
    sizes += [draw.randrange(50_000) for _ in range(60)]
    files = {}
    for number, size in enumerate(sizes):
        text = number % 2 == 1
        data = (
            (b"%d some text\n" % number * (size // 12 + 1))[:size] if text else draw.randbytes(size)
        )
        name = f"{number}.{'txt' if text else 'bin'}"
        (folder / name).write_bytes(data)
        files[name] = data
    return files


def fetch(connection: http.client.HTTPConnection, path: str, zipped: bool) -> tuple[int, bytes]:
    """One file. A worker that a reload retires may close a connection instead of answering."""
    headers = {"Accept-Encoding": "gzip"} if zipped else {}
    for _ in range(20):
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError):
            connection.close()
            continue
        body = response.read()
        if response.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return response.status, body
    return 0, b""


def fetch_all(port: int, files: dict[str, bytes], seed: int, wrong: list[str]) -> None:
    """Fetches every file in a random order over kept-open connections; lists what differs."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    names = list(files)
    random.Random(seed).shuffle(names)
    for turn, name in enumerate(names):
        path = ("/proxied/" if turn % 3 == 0 else "/") + name
        try:
            status, body = fetch(connection, path, zipped=turn % 2 == 0)
        except (OSError, http.client.HTTPException) as error:
            wrong.append(f"{path}: {error!r}")
            break
        if status != 200 or body != files[name]:
            wrong.append(f"{path}: {status}, {len(body)} bytes {hashlib.sha256(body).hexdigest()}")
    connection.close()


def test_static_files_and_reload(lab: Lab, tmp_path: Path) -> None:
    files = make_files(tmp_path / "files")
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(CONFIGURATION.format(folder=tmp_path, port=port, user=user))
    console = tmp_path / "console"
    wrong: list[str] = []
    server = lab.start(
        need("nginx"),
        "-c",
        configuration,
        "-p",
        tmp_path,
        stdout=console.open("w"),
        stderr=subprocess.STDOUT,
    )
    with server as process:
        connect(port, process).close()
        lab.assert_loaded(process.pid)
        for round_number in range(3):
            threads = [
                threading.Thread(target=fetch_all, args=(port, files, seed, wrong))
                for seed in range(6)
            ]
            for thread in threads:
                thread.start()
            if round_number < 2:
                process.send_signal(signal.SIGHUP)
            for thread in threads:
                thread.join()
            assert not wrong, wrong[:5]
        process.send_signal(signal.SIGQUIT)
        assert process.wait(timeout=60) == 0
    errors = [line for line in (tmp_path / "error.log").read_text().splitlines() if "[" in line]
    assert not [line for line in errors if "[alert]" in line or "[emerg]" in line], errors
    assert console.read_text() == ""
