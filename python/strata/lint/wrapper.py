"""strata-cc and strata-c++: clang 19 that also leaves each unit's bitcode beside its object, and
the bitcode's path in a section of the object. Linkers and ar carry the sections along, so that each
program knows what it was made of. Only the standard library: a build starts this for every file.

STRATA_LINT_CC and STRATA_LINT_CXX name another compiler for the objects, `ccache clang-19` say; the
bitcode is clang's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from strata.errors import of_system

SECTION = ".strata_lint"
SOURCES = {".c": "c", ".i": "c", ".cc": "c++", ".cp": "c++", ".cpp": "c++", ".cxx": "c++"}
SOURCES |= {".c++": "c++", ".C": "c++", ".ii": "c++"}
# No object comes of these.
ELSEWHERE = {"-E", "-S", "-M", "-MM", "-fsyntax-only", "--version", "-v", "-###", "-dumpversion"}
ELSEWHERE |= {"-dumpmachine", "--help", "-emit-llvm", "-xassembler", "-xassembler-with-cpp"}
# Options with their value in the next word.
VALUED = {"-o", "-I", "-D", "-U", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-x"}
VALUED |= {"-L", "-l", "-Xlinker", "-Xclang", "-Xpreprocessor", "-Xassembler", "-MF", "-MT", "-MQ"}
VALUED |= {"-isysroot", "--sysroot", "-target", "-arch", "-T", "-u", "-z", "-e", "-B", "-mllvm"}
VALUED |= {"-iprefix", "-iwithprefix", "-include-pch", "--param", "-soname", "-rpath"}
DEPENDENCIES = {"-MD", "-MMD", "-MP", "-MG", "-MV"}
DEPENDENCY_VALUES = {"-MF", "-MT", "-MQ"}
# What changes the code that is analysed and not the program's meaning, or what clang does not know.
FORTIFY = ("-D_FORTIFY_SOURCE", "-U_FORTIFY_SOURCE")
UNWANTED: tuple[str, ...] = ("-O", "-g", "-flto", "-fno-lto", "-ffat-lto", "-fsanitize")
UNWANTED += ("-fprofile", "-pg", "-W", "-ftest-coverage", "--coverage", "-fcoverage", *FORTIFY)
UNWANTED += ("-fembed-bitcode", "-save-temps", "-fstack-clash", "-fcf-protection")
UNWANTED += ("-fstack-protector", "-pedantic")
BITCODE: tuple[str, ...] = ("-O1", "-Xclang", "-disable-llvm-passes", "-g", "-w", "-Wno-error")
BITCODE += ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0", "-fno-discard-value-names")
BITCODE += ("-emit-llvm", "-c")
# With a precompiled header, which fits only the options that it was made with.
FITTING: tuple[str, ...] = (
    "-Xclang",
    "-disable-llvm-passes",
    "-Xclang",
    "-disable-O0-optnone",
    "-w",
    "-emit-llvm",
)
FITTING += ("-g", "-c")
ELF_MAGIC = b"\x7fELF"
UNKNOWN = re.compile(
    r"error: (?:un(?:known|supported) (?:argument|option|target CPU)|invalid value)[^']*'([^']+)'"
)
LLVM_MAGIC = b"BC\xc0\xde"  # what clang -flto makes instead of an object


@dataclass
class Command:
    """What the arguments ask for."""

    words: list[str]
    sources: list[int] = field(default_factory=list)  # places in `words`
    languages: dict[str, str] = field(default_factory=dict)  # of sources, where -x says it
    output: str | None = None
    compiles: bool = False  # -c
    apart: bool = False  # nothing of ours in it


def expand(words: list[str], within: frozenset[str] = frozenset()) -> list[str]:
    """With the words of @files in their place. ValueError: one names itself, or is garbled."""
    out: list[str] = []
    for word in words:
        path = Path(word[1:])
        if word.startswith("@") and path.is_file():
            if word in within:
                raise ValueError(word)
            more = shlex.split(path.read_text(errors="surrogateescape"))
            out += expand(more, within | {word})
        else:
            out.append(word)
    return out


def read(words: list[str]) -> Command:
    command = Command(words)
    language = ""
    place = 0
    while place < len(words):
        word = words[place]
        if word in ELSEWHERE or word.startswith(("-print-", "--print-")) or word == "-":
            command.apart = True
        elif word == "-c":
            command.compiles = True
        elif word in VALUED:
            value = words[place + 1] if place + 1 < len(words) else ""
            if word == "-o":
                command.output = value
            elif word == "-x":
                language = value.removeprefix("none")
            place += 1
        elif word.startswith("-o") and len(word) > 2:
            command.output = word[2:]
        elif word.startswith("-x") and len(word) > 2:
            language = word[2:].removeprefix("none")
        elif not word.startswith("-"):
            if language in ("c", "c++"):
                command.languages[word] = language
            if word in command.languages or (not language and Path(word).suffix in SOURCES):
                command.sources.append(place)
        place += 1
    return command


def bitcode_path(made: Path) -> Path:
    return made.parent / f".{made.name}.bc"


def for_preprocessor(word: str) -> str:
    """A -Wp,... without what writes dependencies and what BITCODE sets."""
    kept: list[str] = []
    parts = iter(word.split(",")[1:])
    for part in parts:
        if part in DEPENDENCY_VALUES or part in ("-MD", "-MMD"):  # with a file, unlike the driver's
            next(parts, None)
        elif part not in DEPENDENCIES and not part.startswith(FORTIFY):
            kept.append(part)
    return ",".join(["-Wp", *kept]) if kept else ""


def bitcode_command(
    compiler: str,
    command: Command,
    source: str,
    target: Path,
    *,
    fitting: bool = False,
    unknown: Collection[str] = (),
) -> list[str]:
    """How clang makes the bitcode of one source; `fitting`: with the options of the object;
    `unknown`: without these options or values."""
    unwanted = () if fitting else UNWANTED
    out: list[str] = []
    words = iter(command.words)
    for word in words:
        if word in (*DEPENDENCY_VALUES, "-o", "-x"):
            next(words, None)
        elif word in unknown or word.partition("=")[2] in unknown:
            continue
        elif word.startswith("-Wp,"):
            out += filter(None, [for_preprocessor(word)])
        elif (
            word in DEPENDENCIES
            or word == "-c"
            or word.startswith((*unwanted, "-MF", "-MT", "-MQ", "-o", "-l", "-x", "-Wl,"))
        ):
            continue
        elif word in VALUED:
            out += [word, next(words, "")]
        elif word.startswith("-"):
            out.append(word)
    if source in command.languages:
        out += ["-x", command.languages[source]]
    return [compiler, *out, *(FITTING if fitting else BITCODE), source, "-o", str(target)]


def note_path(made: Path, *bitcode: Path, section: str = SECTION) -> None:
    """Writes where the bitcode is into the object or what was linked."""
    objcopy = shutil.which("objcopy") or shutil.which("llvm-objcopy-19")
    if objcopy is None or not bitcode or not begins(made, ELF_MAGIC):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".path", errors="surrogateescape") as text:
        text.writelines(f"{path.absolute()}\n" for path in bitcode)
        text.flush()
        call = [objcopy, f"--remove-section={section}", f"--add-section={section}={text.name}"]
        subprocess.run([*call, str(made)], stderr=subprocess.DEVNULL, check=False)


def is_probe(source: str) -> bool:
    """What configure scripts and CMake compile to see whether it compiles."""
    folder = os.fspath(Path.cwd())
    trial = ("CMakeFiles/CMakeScratch", "CMakeFiles/CMakeTmp", "CompilerIdC", "meson-private")
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
        """Waits; says why there is none, if so. A second try goes without what only gcc knows, or
        with the options that a precompiled header was made with."""
        complaint = self.process.communicate()[1]
        if self.process.returncode != 0:
            fitting = "PCH" in complaint
            unknown = UNKNOWN.findall(complaint)
            if fitting or unknown:
                words = (self.clang, self.command, self.source, self.made)
                self.process = start(*words, fitting=fitting, unknown=unknown).process
                complaint = self.process.communicate()[1]
        if self.process.returncode == 0:
            return ""
        self.drop()
        return next((line for line in complaint.splitlines() if "error" in line), "clang failed")

    def drop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
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


def late_objects(command: Command) -> list[Path]:
    """The bitcode of objects of -flto on the line, which hold no sections that last."""
    names = {command.words[place] for place in command.sources}
    objects = [Path(w) for w in command.words if not w.startswith("-") and w not in names]
    objects = [made for made in objects if is_llvm(made) or links_late(command)]
    return [bitcode_path(made) for made in objects if bitcode_path(made).exists()]


def note_linked(target: Path, *bitcode: Path) -> None:
    """In a section of the target's own: what its objects have in theirs stays."""
    own = zlib.crc32(os.fsencode(target.absolute()))
    note_path(target, *bitcode, section=f"{SECTION}.{own:08x}")


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
    """Notes what bitcode there is, after the compiler did its work."""
    kept: list[Path] = []
    for job in jobs:
        if command.compiles and not (job.made.exists() and job.made.stat().st_size > 0):
            job.drop()
        elif why := job.end():
            print(f"{name}: no bitcode of {job.source}: {why}", file=sys.stderr)
        elif command.compiles:
            note_path(job.made, bitcode_path(job.made))
        else:
            kept.append(bitcode_path(job.made))
    if not command.compiles:
        note_linked(Path(command.output or "a.out"), *kept, *late_objects(command))


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
    jobs: list[Job] = []
    try:
        for place, made in zip(command.sources, places_of(command), strict=True):
            jobs.append(start(clang, command, command.words[place], made))
    except OSError as error:  # too many words, say
        print(f"{name}: no bitcode: {of_system(error)}", file=sys.stderr)
    status = subprocess.run([*real, *arguments]).returncode
    try:
        if status == 0:
            keep(name, command, jobs)
        for job in jobs if status != 0 else ():
            job.drop()
    except OSError as error:
        print(f"{name}: no bitcode: {of_system(error)}", file=sys.stderr)
    return status


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
