"""strata-cc and strata-c++: clang 19 that also leaves each unit's bitcode beside its object, and
the bitcode's path in a section of the object. Linkers and ar carry the sections along, so that each
program knows what it was made of. Only the standard library: a build starts this for every file.

STRATA_LINT_CC and STRATA_LINT_CXX name another compiler for the objects, `ccache clang-19` say; the
bitcode is clang's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
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
UNWANTED: tuple[str, ...] = (
    "-O",
    "-g",
    "-flto",
    "-fno-lto",
    "-ffat-lto",
    "-fsanitize",
    "-fprofile",
    "-pg",
    "-W",
)
UNWANTED += ("-ftest-coverage", "--coverage", "-fcoverage", "-fembed-bitcode", "-save-temps")
UNWANTED += ("-fstack-clash", "-fcf-protection", "-march=", "-mtune=", "-D_FORTIFY_SOURCE")
UNWANTED += ("-U_FORTIFY_SOURCE", "-Wp,-D_FORTIFY_SOURCE", "-fstack-protector", "-pedantic")
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
LLVM_MAGIC = b"BC\xc0\xde"  # what clang -flto makes instead of an object


@dataclass
class Command:
    """What the arguments ask for."""

    words: list[str]
    sources: list[int] = field(default_factory=list)  # places in `words`
    output: str | None = None
    compiles: bool = False  # -c
    apart: bool = False  # nothing of ours in it
    language: str | None = None


def expand(words: list[str]) -> list[str]:
    """With the words of @files in their place."""
    out: list[str] = []
    for word in words:
        path = Path(word[1:])
        if word.startswith("@") and path.is_file():
            out += expand(shlex.split(path.read_text(errors="surrogateescape")))
        else:
            out.append(word)
    return out


def read(words: list[str]) -> Command:
    command = Command(words)
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
                command.language = None if value == "none" else value
            place += 1
        elif word.startswith("-o") and len(word) > 2:
            command.output = word[2:]
        elif word.startswith("-x") and len(word) > 2:
            command.language = word[2:]
        elif not word.startswith("-"):
            forced = command.language in ("c", "c++")
            if forced or (command.language is None and Path(word).suffix in SOURCES):
                command.sources.append(place)
        place += 1
    return command


def bitcode_path(made: Path) -> Path:
    return made.parent / f".{made.name}.bc"


def bitcode_command(
    compiler: str, command: Command, source: str, target: Path, *, fitting: bool = False
) -> list[str]:
    """How clang makes the bitcode of one source; `fitting`: with the options of the object."""
    unwanted = () if fitting else UNWANTED
    names = {command.words[place] for place in command.sources}
    out: list[str] = []
    words = iter(command.words)
    for word in words:
        if word in DEPENDENCY_VALUES or word == "-o":
            next(words, None)
        elif (
            word in DEPENDENCIES
            or word == "-c"
            or word in names
            or word.startswith((*unwanted, "-MF", "-MT", "-MQ", "-o", "-l", "-Wl,"))
        ):
            continue
        elif word in VALUED:
            out += [word, next(words, "")]
        elif word.startswith("-") or command.language:
            out.append(word)
    return [compiler, *out, *(FITTING if fitting else BITCODE), source, "-o", str(target)]


def note_path(made: Path, *bitcode: Path, section: str = SECTION) -> None:
    """Writes where the bitcode is into the object or what was linked."""
    objcopy = shutil.which("objcopy") or shutil.which("llvm-objcopy-19")
    if objcopy is None or is_llvm(made):
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

    def end(self, name: str) -> None:
        """Waits; says why, if there is none."""
        complaint = self.process.communicate()[1]
        if self.process.returncode != 0 and "PCH" in complaint:
            retry = start(self.clang, self.command, self.source, self.made, fitting=True)
            complaint = retry.process.communicate()[1]
            self.process = retry.process
        if self.process.returncode != 0:
            why = next((line for line in complaint.splitlines() if "error" in line), "")
            print(f"{name}: no bitcode of {self.source}: {why}", file=sys.stderr)
            self.drop()

    def drop(self) -> None:
        self.process.kill()
        self.process.communicate()
        bitcode_path(self.made).unlink(missing_ok=True)


def start(clang: str, command: Command, source: str, made: Path, *, fitting: bool = False) -> Job:
    words = bitcode_command(clang, command, source, bitcode_path(made), fitting=fitting)
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    return Job(clang, command, source, made, process)


def is_llvm(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == LLVM_MAGIC
    except OSError:
        return False


def links_late(command: Command) -> bool:
    return any(word.startswith("-flto") for word in command.words)


def link(real: list[str], arguments: list[str], command: Command) -> int:
    """Objects of -flto hold no sections: what is linked of them notes their bitcode."""
    objects = [Path(word) for word in command.words if not word.startswith("-")]
    objects = [made for made in objects if is_llvm(made) or links_late(command)]
    kept = [bitcode_path(made) for made in objects if bitcode_path(made).exists()]
    if not kept:
        os.execvp(real[0], [*real, *arguments])
    status = subprocess.run([*real, *arguments]).returncode
    if status == 0:
        note_path(Path(command.output or "a.out"), *kept, section=f"{SECTION}.lto")
    return status


def compile_apart(real: list[str], clang: str, command: Command, name: str) -> int:
    """Sources that are compiled and linked in one call: each to an object first."""
    target = Path(command.output or "a.out")
    words = list(command.words)
    apart: list[Path] = []  # bitcode of objects that hold no sections
    with tempfile.TemporaryDirectory(prefix="strata-cc-") as folder:
        for count, place in enumerate(command.sources):
            source = words[place]
            made = Path(folder, f"{count}-{Path(source).stem}.o")
            kept = target.parent / f"{target.name}-{count}-{Path(source).stem}.o"
            skipped = link_free(command)
            job = start(clang, command, source, kept)
            status = subprocess.run([*real, *skipped, "-c", source, "-o", str(made)]).returncode
            if status != 0:
                job.drop()
                return status
            job.end(name)
            note_path(made, bitcode_path(kept))
            if is_llvm(made) or links_late(command):
                apart.append(bitcode_path(kept))
            words[place] = str(made)
        if command.language:
            words = ["-x" if w == "-x" else w for w in words]
            words = drop_language(words)
        status = subprocess.run([*real, *words]).returncode
        if status == 0 and apart:
            note_path(target, *apart, section=f"{SECTION}.lto")
        return status


def drop_language(words: list[str]) -> list[str]:
    out: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-x":
            next(rest, None)
        elif not (word.startswith("-x") and len(word) > 2):
            out.append(word)
    return out


def link_free(command: Command) -> list[str]:
    """The options for one source, without what is for the linker and the other files."""
    out: list[str] = []
    place = 0
    words = command.words
    while place < len(words):
        word = words[place]
        if word in VALUED:
            if word not in ("-o", "-l", "-L", "-Xlinker", "-z", "-u", "-T", "-e"):
                out += words[place : place + 2]
            place += 1
        elif word.startswith("-") and not word.startswith(("-l", "-L", "-Wl,", "-o")):
            out.append(word)
        place += 1
    return out


def run(name: str, real: list[str], clang: str, arguments: list[str]) -> int:
    command = read(expand(arguments))
    probe = any(is_probe(command.words[place]) for place in command.sources)
    if command.apart or probe or keeps_nothing(command):
        os.execvp(real[0], [*real, *arguments])
    if not command.sources:
        return link(real, arguments, command)
    if not command.compiles:
        return compile_apart(real, clang, command, name)
    sources = [command.words[place] for place in command.sources]
    made = [
        Path(command.output if command.output and len(sources) == 1 else f"{Path(source).stem}.o")
        for source in sources
    ]
    jobs = [start(clang, command, s, m) for s, m in zip(sources, made, strict=True)]
    status = subprocess.run([*real, *arguments]).returncode
    for job in jobs:
        if status == 0 and job.made.exists() and job.made.stat().st_size > 0:
            job.end(name)
            note_path(job.made, bitcode_path(job.made))
        else:
            job.drop()
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
