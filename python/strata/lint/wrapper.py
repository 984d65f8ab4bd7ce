"""strata-cc and strata-c++: clang 19 that also leaves each unit's bitcode beside its object, and
the bitcode's path in a section of the object. Linkers and ar carry the sections along, so that each
program knows what it was made of. Only the standard library: a build starts this for every file.

STRATA_LINT_CC and STRATA_LINT_CXX name another compiler for the objects, `ccache clang-19` say; the
bitcode is clang's.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from strata.errors import of_system
from strata.lint.archives import LLVM_MAGIC, note_behind, noted_behind
from strata.lint.words import Command, bitcode_command, expand, read, values

SECTION = ".strata_lint"
ELF_MAGIC = b"\x7fELF"
UNKNOWN = re.compile(
    r"error: (?:un(?:known|supported) (?:argument|option|target CPU)|invalid value)[^']*'([^']+)'"
)


def bitcode_path(made: Path) -> Path:
    return made.parent / f".{made.name}.bc"


def note_llvm(made: Path, bitcode: Path) -> None:
    """An object of -flto is none: its note stands behind what LLVM reads."""
    copy = made.parent / f".{made.name}.{os.getpid()}.strata"
    try:
        copy.write_bytes(made.read_bytes() + note_behind(os.fsencode(bitcode.absolute())))
        shutil.copymode(made, copy)
        copy.replace(made)
    finally:
        copy.unlink(missing_ok=True)


def note_path(made: Path, *bitcode: Path, section: str = SECTION) -> str:
    """Writes where the bitcode is into the object or what was linked; says why not, if so."""
    if bitcode and is_llvm(made):
        note_llvm(made.resolve(), bitcode[0])
        return ""
    # GNU's unlinks .llvm_addrsig from the symbols, without which lld folds nothing.
    objcopy = shutil.which("llvm-objcopy-19") or shutil.which("objcopy")
    if objcopy is None or not bitcode or not begins(made, ELF_MAGIC):
        return ""
    target = made.resolve()
    copy = target.parent / f".{target.name}.{os.getpid()}.strata"
    with tempfile.NamedTemporaryFile("w", suffix=".path", errors="surrogateescape") as text:
        text.writelines(f"{path.absolute()}\n" for path in bitcode)
        text.flush()
        call = [objcopy, f"--remove-section={section}", f"--add-section={section}={text.name}"]
        try:
            done = subprocess.run(
                [*call, str(target), str(copy)], stderr=subprocess.DEVNULL, check=False
            )
            if done.returncode != 0:
                return f"{objcopy} failed"
            shutil.copymode(target, copy)
            copy.replace(target)
        finally:
            copy.unlink(missing_ok=True)
    return ""


def is_probe(source: str) -> bool:
    """What configure scripts and CMake compile to see whether it compiles."""
    folder = os.fspath(Path.cwd())
    trial = ["CMakeFiles/CMakeScratch", "CMakeFiles/CMakeTmp", "CMakeFiles/_CMakeLTOTest-"]
    trial += ["CompilerIdC", "meson-private"]
    return Path(source).name.startswith("conftest") or any(t in folder + source for t in trial)


def keeps_nothing(command: Command) -> bool:
    """Whether the output is no file that something could lie beside: /dev/null, a pipe."""
    made = Path(command.output or "a.out")
    return command.output == "-" or (made.exists() and not made.is_file())


@dataclass
class Job:
    """One source on its way to bitcode."""

    clang: str
    command: Command
    source: str
    made: Path
    process: subprocess.Popen[str]

    def end(self) -> str:
        """Waits; says why there is none, if so. Further tries go without what only gcc knows (the
        driver complains before the compiler proper does), or with the options that a precompiled
        header was made with."""
        fitting = False
        unknown: set[str] = set()
        while True:
            complaint = self.process.communicate()[1]
            if self.process.returncode == 0:
                return ""
            tried = (fitting, len(unknown))
            fitting = fitting or "PCH" in complaint
            unknown.update(UNKNOWN.findall(complaint))
            if tried == (fitting, len(unknown)):
                break
            words = (self.clang, self.command, self.source, self.made)
            self.process = start(*words, fitting=fitting, unknown=unknown).process
        self.drop()
        return next((line for line in complaint.splitlines() if "error" in line), "clang failed")

    def drop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()  # clang then removes its temporary file
            try:
                self.process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
        with contextlib.suppress(OSError):
            bitcode_path(self.made).unlink(missing_ok=True)


def start(
    clang: str,
    command: Command,
    source: str,
    made: Path,
    *,
    fitting: bool = False,
    unknown: Collection[str] = (),
) -> Job:
    target = bitcode_path(made)
    process = subprocess.Popen(
        bitcode_command(clang, command, source, target, fitting=fitting, unknown=unknown),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    return Job(clang, command, source, made, process)


def begins(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False


def is_llvm(path: Path) -> bool:
    return begins(path, LLVM_MAGIC)


def links_late(command: Command) -> bool:
    return any(word.startswith("-flto") for word in command.words)


def bitcode_of(made: Path) -> Path:
    """Of an object of -flto: what its note names, wherever it was moved to, or what lies beside."""
    noted = noted_behind(made.read_bytes()) if is_llvm(made) else None
    return Path(os.fsdecode(noted)) if noted is not None else bitcode_path(made)


def libraries(command: Command) -> list[Path]:
    """The static libraries on the line."""
    folders = [Path(f) for f in values(command.words, "-L")]
    wanted = [f / f"lib{name}.a" for name in values(command.words, "-l") for f in folders]
    files = [Path(w) for w in command.words if w.endswith(".a") and not w.startswith("-")]
    return [path for path in dict.fromkeys([*files, *wanted]) if path.is_file()]


def late_objects(command: Command) -> list[Path]:
    """The bitcode of objects of -flto on the line, and in libraries there: they hold no sections
    that last."""
    from strata.lint.units import read_archive

    names = {command.words[place] for place in command.sources}
    objects = [Path(w) for w in command.words if not w.startswith("-") and w not in names]
    objects = [made for made in objects if is_llvm(made) or links_late(command)]
    late = [bitcode_of(made) for made in objects if made.is_file()]
    for library in libraries(command) if objects or links_late(command) else ():
        made = read_archive(library, late=True)
        late += made.bitcode if made is not None else ()
    return [path for path in dict.fromkeys(late) if path.exists()]


def note_linked(target: Path, *bitcode: Path) -> str:
    """In a section of the target's own: what its objects have in theirs stays."""
    own = zlib.crc32(os.fsencode(target.absolute()))
    return note_path(target, *bitcode, section=f"{SECTION}.{own:08x}")


def places_of(command: Command) -> list[Path]:
    """For each source, the file that its bitcode shall lie beside."""
    target = Path(command.output or "a.out")
    sources = [command.words[place] for place in command.sources]
    if not command.compiles:
        stems = [f"{count}-{Path(source).stem}" for count, source in enumerate(sources)]
        return [target.parent / f"{target.name}-{stem}.o" for stem in stems]
    if command.output and len(sources) == 1:
        return [target]
    return [Path(f"{Path(source).stem}.o") for source in sources]


def keep(name: str, command: Command, jobs: list[Job]) -> None:
    """Notes what bitcode there is, after the compiler did its work; `jobs` keeps the others."""
    kept: list[Job] = []
    for job in list(jobs):
        if command.compiles and not (job.made.exists() and job.made.stat().st_size > 0):
            continue
        if not (why := job.end()):
            kept.append(job)
            if command.compiles:
                why = note_path(job.made, bitcode_path(job.made))
        if why:
            print(f"{name}: no bitcode of {job.source}: {why}", file=sys.stderr)
        elif command.compiles:
            jobs.remove(job)
    if not command.compiles:
        made = Path(command.output or "a.out")
        bitcode = [bitcode_path(job.made) for job in kept]
        if why := note_linked(made, *bitcode, *late_objects(command)):
            print(f"{name}: no bitcode of {made}: {why}", file=sys.stderr)
        else:
            jobs[:] = [job for job in jobs if job not in kept]


def on_signal(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def compile_really(words: list[str]) -> int:
    """With all descriptors: a source or make's job server may be one. A signal that ends us ends
    the compiler, too."""
    with subprocess.Popen(words, close_fds=False) as process:
        try:
            status = process.wait()
        finally:
            process.terminate()
    return status if status >= 0 else 128 - status


def build(name: str, real: list[str], clang: str, arguments: list[str], command: Command) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, on_signal)
    jobs: list[Job] = []
    try:
        try:
            for place, made in zip(command.sources, places_of(command), strict=True):
                jobs.append(start(clang, command, command.words[place], made))
        except OSError as error:  # too many words, say
            print(f"{name}: no bitcode: {of_system(error)}", file=sys.stderr)
        status = compile_really([*real, *arguments])
        try:
            if status == 0:
                keep(name, command, jobs)
        except OSError as error:
            print(f"{name}: no bitcode: {of_system(error)}", file=sys.stderr)
    finally:
        for job in jobs:
            job.drop()
    return status


def run(name: str, real: list[str], clang: str, arguments: list[str]) -> int:
    try:
        command = read(expand(arguments))
    except ValueError:  # the compiler has the words for it
        command = Command(arguments, apart=True)
    probe = any(is_probe(command.words[place]) for place in command.sources)
    if command.apart or probe or keeps_nothing(command):
        os.execvp(real[0], [*real, *arguments])
    if not command.sources and (command.compiles or not late_objects(command)):
        os.execvp(real[0], [*real, *arguments])
    return build(name, real, clang, arguments, command)


def main(name: str, variable: str, clang: str) -> None:
    real = shlex.split(os.environ.get(variable) or clang)
    for tool in {*real[:1], clang}:
        if shutil.which(tool) is None:
            print(f"{name}: {tool} is missing; install Debian's clang-19", file=sys.stderr)
            sys.exit(127)
    try:
        sys.exit(run(name, real, clang, sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        print(f"{name}: {of_system(error)}", file=sys.stderr)
        sys.exit(1)


def cc() -> None:
    main("strata-cc", "STRATA_LINT_CC", "clang-19")


def cxx() -> None:
    main("strata-c++", "STRATA_LINT_CXX", "clang++-19")
