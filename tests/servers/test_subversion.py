"""A large program on APR: Debian's Subversion with its pools on reaps makes the same repository,
reads it back the same, and serves it from threads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from blackbox import Lab, Result, connect, free_port, need
from serving import apr_preload, make_files

DATE = "2024-01-01T00:00:00.000000Z"


class Session:
    """Commands of one kind, stock or on reaps, in a folder of their own."""

    def __init__(self, lab: Lab, folder: Path, *, reaps: bool) -> None:
        self.lab = lab
        self.reaps = reaps
        self.folder = folder
        self.env = {"HOME": str(folder), "LC_ALL": "C.UTF-8"}
        if reaps:
            self.env["LD_PRELOAD"] = apr_preload(lab)
        folder.mkdir()
        self.url = f"file://{folder}/repository"

    def run(self, program: str, *arguments: str | Path) -> Result:
        result = self.lab.run(
            need(program),
            *arguments,
            env=self.env,
            preload=self.reaps,
            timeout=120,
            cwd=self.folder,
        )
        assert result.returncode == 0, result.explain()
        assert result.strata_lines() == [], result.explain()
        return result

    def svn(self, *arguments: str | Path) -> str:
        return self.run("svn", "--non-interactive", "--username", "anna", *arguments).stdout

    def make_repository(self, files: Path) -> None:
        """Five revisions: an import, a branch, changes on both sides, a merge."""
        self.run("svnadmin", "create", "repository")
        hook = self.folder / "repository" / "hooks" / "pre-revprop-change"
        hook.write_text("#!/bin/sh\n")
        hook.chmod(0o755)
        self.svn("import", "-q", "-m", "import", files, f"{self.url}/trunk")
        self.svn("copy", "-q", "-m", "branch", f"{self.url}/trunk", f"{self.url}/branch")
        self.svn("checkout", "-q", f"{self.url}/trunk", "work")
        text = self.folder / "work" / "7.txt"
        text.write_text("first\n" + text.read_text())
        self.svn("propset", "-q", "svn:keywords", "Id", "work/9.txt")
        self.svn("rename", "-q", "work/11.txt", "work/renamed.txt")
        self.svn("commit", "-q", "-m", "change", "work")
        self.svn("switch", "-q", f"{self.url}/branch", "work")
        text.write_text(text.read_text() + "last\n")
        self.svn("commit", "-q", "-m", "change the branch", "work")
        self.svn("update", "-q", "work")
        self.svn("merge", "-q", f"{self.url}/trunk", "work")
        self.svn("commit", "-q", "-m", "merge", "work")
        for revision in range(6):
            self.svn("propset", "-q", "--revprop", "-r", str(revision), "svn:date", DATE, self.url)

    def read_back(self) -> list[str]:
        self.run("svnadmin", "verify", "-q", "repository")
        self.svn("export", "-q", f"{self.url}/branch", "exported")
        exported = [
            f"{path.name} {path.read_bytes().hex()[:2000]}"
            for path in sorted((self.folder / "exported").iterdir())
        ]
        listed = [
            self.svn("log", "-v", "--diff", f"{self.url}/branch"),
            self.svn("blame", f"{self.url}/branch/7.txt"),
            self.svn("list", "-R", "-v", self.url),
            self.svn("diff", "--old", f"{self.url}/trunk", "--new", f"{self.url}/branch"),
            self.svn("mergeinfo", f"{self.url}/trunk", f"{self.url}/branch"),
            self.svn("status", "-v", "work"),
        ]
        return [text.replace(str(self.folder), "FOLDER") for text in listed + exported]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    need("svnadmin")
    make_files(tmp_path / "files")
    return tmp_path / "files"


def test_a_repository_is_the_same(lab: Lab, files: Path, tmp_path: Path) -> None:
    lab.require_strata()
    got = []
    for reaps in (False, True):
        session = Session(lab, tmp_path / ("reaps" if reaps else "stock"), reaps=reaps)
        session.make_repository(files)
        got.append(session.read_back())
    assert got[0] == got[1]
    assert "Merged /trunk" in got[0][0] and len(got[0]) > 20


def test_a_server_with_threads_answers_many_clients(lab: Lab, files: Path, tmp_path: Path) -> None:
    lab.require_strata()
    session = Session(lab, tmp_path / "served", reaps=True)
    session.run("svnadmin", "create", "repository")
    session.svn("import", "-q", "-m", "import", files, f"{session.url}/trunk")
    port = free_port()
    command = ["-d", "--foreground", "-T", "--listen-host", "127.0.0.1"]
    command += ["--listen-port", str(port), "-r", str(session.folder)]
    started = lab.start(
        need("svnserve"),
        *command,
        env=session.env,
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "console").open("w"),
    )
    with started as server:
        connect(port, server).close()
        assert "libstrata-apr.so" in Path(f"/proc/{server.pid}/maps").read_text()
        url = f"svn://127.0.0.1:{port}/repository/trunk"
        clients = [
            subprocess.Popen([need("svn"), "checkout", "-q", url, str(tmp_path / f"{number}")])
            for number in range(6)
        ]
        assert [client.wait(timeout=120) for client in clients] == [0] * 6
        assert server.poll() is None
    assert (tmp_path / "console").read_text() == ""
    for number in range(6):
        for path in files.iterdir():
            assert (tmp_path / f"{number}" / path.name).read_bytes() == path.read_bytes()
