"""Each package, installed where nothing else is, used as its users do, and removed without a trace:
a Debian 12 root, a bare virtual environment, a fresh cargo project. Run by `make test-packages`."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "out" / "packages"
VERSION = "0.9.0"
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}


def run(*words: str | Path, cwd: Path = Path("/"), **env: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=CLEAN | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}"
    return done.stdout


# ---- Debian


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can make a Debian root")
    root = tmp_path_factory.mktemp("debian") / "root"
    run("mmdebstrap", "--variant=minbase", "--include=gcc,libc6-dev", "bookworm", root)
    run("mount", "--bind", "/proc", root / "proc")
    for file in OUT.glob("*.deb"):
        (root / "tmp" / file.name).write_bytes(file.read_bytes())
    yield root
    run("umount", root / "proc")


def inside(root: Path, command: str) -> str:
    return run("chroot", root, "sh", "-c", command, PATH="/usr/sbin:/usr/bin:/sbin:/bin")


def files(root: Path) -> set[str]:
    """All names but those that apt and Python keep changing."""
    listing = inside(root, "find / -xdev -not -path '/proc/*' -not -path '/tmp/*'")
    kept = ("/var/lib", "/var/cache", "/var/log", "/etc/ld.so.cache")
    return {name for name in listing.splitlines() if not name.startswith(kept)}


def test_debian_packages(debian: Path) -> None:
    inside(debian, "apt-get update -qq && apt-get install -qq -y --no-install-recommends python3")
    before = files(debian)
    inside(debian, "apt-get install -qq -y --no-install-recommends /tmp/*.deb")

    assert inside(debian, "strata --version").strip() == f"strata {VERSION}"
    assert f"Strata {VERSION}" in inside(debian, "strata run --stats -- ls / 2>&1")
    assert inside(debian, "strata run --heap lea -- echo here").strip() == "here"
    inside(debian, "strata trace -o /tmp/ls.stb -- ls / && strata replay /tmp/ls.stb")
    assert "Usage" in inside(debian, "strata report --help")  # with what it imports
    assert "strata run" in inside(debian, "zcat /usr/share/man/man1/strata.1.gz")
    assert "run" in inside(
        debian,
        "COMP_WORDS='strata r' COMP_CWORD=1 _STRATA_COMPLETE=complete_bash strata",
    )

    source = (
        "#include <strata/strata.h>\\n#include <stdio.h>\\nint main() { puts(strata_version()); }"
    )
    inside(debian, f"printf '{source}' >/tmp/v.c && gcc /tmp/v.c -o /tmp/v -lstrata")
    assert inside(debian, "/tmp/v").strip() == VERSION
    assert "Strata" not in inside(debian, "readelf -S /usr/lib/x86_64-linux-gnu/libstrata.so.0")

    inside(debian, "dpkg --purge libstrata0-dbgsym strata-tools libstrata-dev libstrata0")
    assert files(debian) - before == set()


# ---- Python


def test_wheel(tmp_path: Path) -> None:
    wheel = next(OUT.glob(f"strata_malloc-{VERSION}-*.whl"))
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    before = sorted((home / "bin").iterdir())
    run(home / "bin/pip", "install", "-q", wheel)
    strata = home / "bin/strata"
    assert run(strata, "--version").strip() == f"strata {VERSION}"
    assert f"Strata {VERSION}" in run(strata, "run", "--stats", "--", "ls", "/")
    shown = run(strata, "run", "--", "sh", "-c", "grep -m1 -o '/[^ ]*libstrata.so' /proc/self/maps")
    assert Path(shown.strip()).is_relative_to(home)
    run(strata, "trace", "-o", tmp_path / "ls.stb", "--", "ls", "/")
    missing = subprocess.run(
        [strata, "report", "1"], env=CLEAN, capture_output=True, text=True, check=False
    )
    assert "pip install 'strata-malloc[report]'" in missing.stderr.replace("\n", " ")
    run(home / "bin/pip", "uninstall", "-q", "-y", "strata-malloc")
    assert not list(home.rglob("*strata*"))
    assert strata not in before


# ---- Rust

MAIN = """
#[global_allocator]
static ALLOCATOR: strata_malloc::Strata = strata_malloc::Strata;

fn main() {
    let words: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    assert!(strata_malloc::stats().live > 100_000);
    println!("{} {}", strata_malloc::version(), words.len());
}
"""


def test_crate_builds_offline(tmp_path: Path) -> None:
    with tarfile.open(OUT / f"strata-malloc-{VERSION}.crate") as archive:
        archive.extractall(tmp_path, filter="data")
    crate = tmp_path / f"strata-malloc-{VERSION}"
    target = {"CARGO_TARGET_DIR": str(tmp_path / "target")}
    run("cargo", "test", "-q", "--offline", cwd=crate, **target)
    user = tmp_path / "user"
    run("cargo", "new", "-q", "--vcs", "none", user)
    with (user / "Cargo.toml").open("a") as file:
        file.write(f'strata-malloc = {{ path = "{crate}" }}\n')
    (user / "src/main.rs").write_text(MAIN)
    assert run("cargo", "run", "-q", "--offline", cwd=user, **target).strip() == f"{VERSION} 100000"


def test_versions_agree() -> None:
    """One version everywhere."""
    assert f'VERSION "{VERSION}"' in (ROOT / "src/base/version.h").read_text()
    assert f"VERSION {VERSION} " in (ROOT / "CMakeLists.txt").read_text()
    for file in ("python/pyproject.toml", "rust/Cargo.toml", "python/strata/__init__.py"):
        assert f'version = "{VERSION}"' in (ROOT / file).read_text().replace("__", ""), file
    assert sys.version_info >= (3, 11)
