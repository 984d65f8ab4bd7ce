"""Each package, installed where nothing else is, used as its users do, and removed without a trace:
a Debian 12 root, a bare virtual environment, a fresh cargo project. What is for aarch64 or musl is
unpacked, and its libraries run under qemu-user and with musl's loader. Run by `make test-packages`.
"""

from __future__ import annotations

import os
import platform
import re
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


# Allocates, and says which library's malloc that was.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  Dl_info at;
  char* blocks[1000];
  for (int i = 0; i < 1000; ++i) (blocks[i] = malloc(i * 9 + 1))[i * 9] = 1;
  for (int i = 0; i < 1000; ++i) free(blocks[i]);
  puts(dladdr((void*)malloc, &at) ? at.dli_fname : "?");
  return 0;
}
"""
CROSS = pytest.mark.skipif(platform.machine() != "x86_64", reason="made on x86-64 alone")


def musl_root() -> Path:
    return Path(run(ROOT / "scripts/musl-arm64.sh").strip())


def compiled(compiler: str | Path, folder: Path, *options: str | Path) -> Path:
    source = folder / "program.c"
    source.write_text("#define _GNU_SOURCE\n" + PROGRAM)
    run(compiler, source, "-o", folder / "program", *options)
    return folder / "program"


def malloc_of(library: Path, folder: Path) -> str:
    """Where a program's malloc comes from under that library, which is for any of the targets."""
    arm = "aarch64" in str(library) or "arm64" in str(library)
    if "musl" not in library.name:
        compiler: str | Path = "aarch64-linux-gnu-gcc" if arm else "gcc"
        root = Path("/usr/aarch64-linux-gnu")
    else:
        root = musl_root() if arm else Path("/")
        compiler = root / "musl-gcc" if arm else "musl-gcc"
    program = compiled(compiler, folder, "-ldl")
    if arm:
        return run("qemu-aarch64", "-L", root, "-E", f"LD_PRELOAD={library}", program).strip()
    return run(program, LD_PRELOAD=str(library)).strip()


# ---- Debian


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can make a Debian root")
    root = tmp_path_factory.mktemp("debian") / "root"
    run("mmdebstrap", "--variant=minbase", "--include=gcc,libc6-dev", "bookworm", root)
    run("mount", "--bind", "/proc", root / "proc")
    for file in OUT.glob("*_amd64.deb"):
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


def explain_command(message: str) -> str:
    """The command that a message about a memory error names."""
    found = re.search(r"read on: (strata explain [a-z-]+), or docs/errors.md", message)
    assert found, message
    return found[1]


def test_debian_packages(debian: Path) -> None:
    install = "apt-get install -qq -y --no-install-recommends"
    inside(debian, f"apt-get update -qq && {install} python3 clang-19")
    before = files(debian)
    inside(debian, f"{install} /tmp/*.deb")

    assert inside(debian, "strata --version").strip() == f"strata {VERSION}"
    assert f"strata {VERSION}" in inside(debian, "strata run --stats -- ls / 2>&1")
    assert inside(debian, "strata run --heap lea -- echo here").strip() == "here"
    inside(debian, "strata trace -o /tmp/ls.stb -- ls / && strata replay /tmp/ls.stb")
    assert "Usage" in inside(debian, "strata report --help")  # with what it imports
    for package in ("libstrata0", "libstrata0-musl", "strata-tools"):
        page = f"/usr/share/doc/{package}/docs/errors.md"  # which messages name
        assert "## How to read a message" in inside(debian, f"cat {page}")
    twice = "int main() { char* volatile p = malloc(9); free(p); free(p); }"
    inside(
        debian, f"echo '#include <stdlib.h>\n{twice}' >/tmp/t.c && gcc -w -O0 /tmp/t.c -o /tmp/t"
    )
    said = inside(debian, "strata run --set ON_ERROR=ignore -- /tmp/t 2>&1")
    assert inside(debian, explain_command(said)).startswith("Double free\n")
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

    assert "libstrata-musl.so.0" in inside(debian, "dpkg -L libstrata0-musl")

    for compiler in ("strata-cc", "strata-c++"):
        assert "strata lint" in inside(debian, f"zcat /usr/share/man/man1/{compiler}.1.gz")
    inside(debian, "mkdir /tmp/lint && cd /tmp/lint && strata-cc -w -c /tmp/t.c")
    assert "t.c:2: heap: freed twice" in inside(debian, "strata lint /tmp/lint || test $? = 1")

    inside(
        debian,
        "dpkg --purge strata-lint libstrata0-dbgsym strata-tools libstrata-dev libstrata0"
        " libstrata0-musl",
    )
    assert files(debian) - before == set()


@CROSS
@pytest.mark.parametrize("package", ["libstrata0", "libstrata0-musl"])
@pytest.mark.parametrize("machine", ["amd64", "arm64"])
def test_debian_library(package: str, machine: str, tmp_path: Path) -> None:
    file = OUT / f"{package}_{VERSION}-1_{machine}.deb"
    assert run("dpkg-deb", "-f", file, "Architecture").strip() == machine
    root = tmp_path / machine
    run("dpkg-deb", "-x", file, root)
    name = "libstrata-musl.so.0" if package.endswith("musl") else "libstrata.so.0"
    library = next(root.glob(f"usr/lib/*/{name}"))
    assert malloc_of(library, tmp_path) == str(library)
    needed = [line for line in run("readelf", "-d", library).splitlines() if "(NEEDED)" in line]
    assert any("[libc.so" in line for line in needed), needed


@CROSS
def test_debian_tools_for_arm64(tmp_path: Path) -> None:
    """What it carries is built for arm64, and nothing in it for another machine."""
    run("dpkg-deb", "-x", OUT / f"strata-tools_{VERSION}-1_arm64.deb", tmp_path)
    machines = set()
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            machines.add(path.read_bytes()[18:20])
    assert machines == {b"\xb7\x00"}
    carried = {path.name for path in (tmp_path / "usr/lib/strata-tools").iterdir()}
    assert {"strata", "typer", "click", "numpy", "polars", "matplotlib", "google"} <= carried


# ---- Python


@CROSS
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("libc", ["manylinux_2_34", "musllinux_1_2"])
def test_wheel_of_each_machine(libc: str, machine: str, tmp_path: Path) -> None:
    """pip takes it for that machine, and the libraries in it work there."""
    home = tmp_path / machine
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    pip += ["--disable-pip-version-check", "--only-binary=:all:", "--find-links", str(OUT)]
    run(*pip, "--platform", f"{libc}_{machine}", "--target", home, f"strata-malloc=={VERSION}")
    for name in ("libstrata.so", "libstrata-musl.so"):
        library = home / "strata/lib" / name
        assert library.exists() is (libc == "manylinux_2_34" or "musl" in name)
        if library.exists():
            assert malloc_of(library, tmp_path) == str(library)


def test_wheel(tmp_path: Path) -> None:
    wheel = next(OUT.glob(f"strata_malloc-{VERSION}-*-manylinux_*_{platform.machine()}.whl"))
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    before = sorted((home / "bin").iterdir())
    run(home / "bin/pip", "install", "-q", wheel)
    strata = home / "bin/strata"
    assert run(strata, "--version").strip() == f"strata {VERSION}"
    assert f"strata {VERSION}" in run(strata, "run", "--stats", "--", "ls", "/")
    shown = run(strata, "run", "--", "sh", "-c", "grep -m1 -o '/[^ ]*libstrata.so' /proc/self/maps")
    assert Path(shown.strip()).is_relative_to(home)
    of_musl = run(strata, "run", "--", compiled("musl-gcc", tmp_path))
    assert (
        Path(of_musl.strip()) == home / "lib/python3.11/site-packages/strata/lib/libstrata-musl.so"
    )
    run(strata, "trace", "-o", tmp_path / "ls.stb", "--", "ls", "/")
    assert run(strata, "explain", "use-after-free").startswith("Use after free\n")
    missing = subprocess.run(
        [strata, "report", "1"], env=CLEAN, capture_output=True, text=True, check=False
    )
    assert "pip install 'strata-malloc[report]'" in missing.stderr.replace("\n", " ")
    # Here the newest typer is, whatever the tree's tests have.
    mistake = subprocess.run(
        [strata, "get"], env=CLEAN, capture_output=True, text=True, check=False
    )
    assert (mistake.returncode, mistake.stderr.count("\n")) == (2, 1), mistake
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
    assert "### Double free" in (crate / "docs/errors.md").read_text()  # which messages name
    target = {"CARGO_TARGET_DIR": str(tmp_path / "target")}
    run("cargo", "test", "-q", "--offline", cwd=crate, **target)
    user = tmp_path / "user"
    run("cargo", "new", "-q", "--vcs", "none", user)
    with (user / "Cargo.toml").open("a") as file:
        file.write(f'strata-malloc = {{ path = "{crate}" }}\n')
    (user / "src/main.rs").write_text(MAIN)
    assert run("cargo", "run", "-q", "--offline", cwd=user, **target).strip() == f"{VERSION} 100000"


# What cargo says to the build script of a crate, where the targets' standard library is not there.
ELSEWHERE = {
    "aarch64-unknown-linux-gnu": "aarch64-linux-gnu-gcc",
    "x86_64-unknown-linux-musl": "musl-gcc",
    "aarch64-unknown-linux-musl": "{musl}/musl-gcc",
}


@CROSS
@pytest.mark.parametrize("target", ELSEWHERE)
def test_crate_s_build_script_for_other_targets(target: str, tmp_path: Path) -> None:
    """It makes an archive that a static program of the target works with."""
    with tarfile.open(OUT / f"strata-malloc-{VERSION}.crate") as archive:
        archive.extractall(tmp_path, filter="data")
    crate = tmp_path / f"strata-malloc-{VERSION}"
    script = tmp_path / "build-script"
    run("rustc", "--edition", "2021", crate / "build.rs", "-o", script)
    arch, _, _, libc = target.split("-")
    out = tmp_path / "out"
    out.mkdir()
    musl = musl_root()
    env = {"CARGO_CFG_TARGET_ARCH": arch, "CARGO_CFG_TARGET_OS": "linux", "TARGET": target}
    env |= {"CARGO_CFG_TARGET_ENV": libc, "HOST": "x86_64-unknown-linux-gnu"}
    env |= {"CARGO_MANIFEST_DIR": str(crate), "OUT_DIR": str(out)}
    env |= {"NUM_JOBS": str(os.cpu_count())}
    if target == "aarch64-unknown-linux-musl":
        env["MUSL_INCLUDE"] = str(musl / "usr/include/aarch64-linux-musl")
    run(script, cwd=Path("/"), **env)
    compiler = ELSEWHERE[target].format(musl=musl)
    source = tmp_path / "v.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\nconst char* strata_version(void);\n"
        "int main(void) { free(malloc(99)); return puts(strata_version()) < 0; }\n"
    )
    archive_options = ("-Wl,--whole-archive", out / "libstrata.a", "-Wl,--no-whole-archive")
    run(compiler, "-static", source, *archive_options, "-o", tmp_path / "v")
    emulator = ("qemu-aarch64",) if arch == "aarch64" else ()
    assert run(*emulator, tmp_path / "v").strip() == VERSION


def test_versions_agree() -> None:
    """One version everywhere."""
    assert f'VERSION "{VERSION}"' in (ROOT / "src/base/version.h").read_text()
    assert f"VERSION {VERSION} " in (ROOT / "CMakeLists.txt").read_text()
    for file in ("python/pyproject.toml", "rust/Cargo.toml", "python/strata/__init__.py"):
        assert f'version = "{VERSION}"' in (ROOT / file).read_text().replace("__", ""), file
    assert sys.version_info >= (3, 11)
