"""What the words of a compiler's command line ask for, and the command that makes the bitcode."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = {".c": "c", ".i": "c", ".cc": "c++", ".cp": "c++", ".cpp": "c++", ".cxx": "c++"}
SOURCES |= {".c++": "c++", ".C": "c++", ".ii": "c++"}
# No object comes of these, or not where -o says.
ELSEWHERE = {"-E", "-S", "-M", "-MM", "-fsyntax-only", "--version", "-###", "-dumpversion"}
ELSEWHERE |= {"-dumpmachine", "--help", "-emit-llvm", "-xassembler", "-xassembler-with-cpp"}
ELSEWHERE |= {"--analyze", "--assemble", "--preprocess", "--dependencies", "--user-dependencies"}
APART = ("-print-", "--print-", "-working-directory")
DEPENDENCIES = {"-MD", "-MMD", "-MP", "-MG", "-MV"}
DEPENDENCIES |= {"--write-dependencies", "--write-user-dependencies"}
DEPENDENCY_VALUES = {"-MF", "-MT", "-MQ", "-MJ"}
# Options whose value, in the next word, is a file that the compiler writes for the object.
WRITTEN = {*DEPENDENCY_VALUES, "--serialize-diagnostics", "-serialize-diagnostics"}
WRITTEN |= {"-serialize-diagnostic-file", "-serialize-diagnostics-file", "-dependency-file"}
WRITTEN |= {"-dependency-dot", "-aux-info", "-dumpbase", "-dumpbase-ext", "-dumpdir"}
OUTPUT = {"-o", "--output"}
LANGUAGE = {"-x", "--language"}
# Options with their value in the next word.
VALUED = {"-I", "-D", "-U", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-F", "-A"}
VALUED |= {"-L", "-l", "-Xlinker", "-Xclang", "-Xpreprocessor", "-Xassembler", "-ivfsoverlay"}
VALUED |= {"-isysroot", "--sysroot", "-target", "-arch", "-T", "-u", "-z", "-e", "-B", "-mllvm"}
VALUED |= {"-iprefix", "-iwithprefix", "-iwithprefixbefore", "-include-pch", "--param", "-soname"}
VALUED |= {"-rpath", "--include", "--imacros", "--include-directory", "--define-macro"}
VALUED |= {"--undefine-macro", *WRITTEN, *OUTPUT, *LANGUAGE}
# What changes the code that is analysed and not the program's meaning, or what clang does not know.
FORTIFY = ("-D_FORTIFY_SOURCE", "-U_FORTIFY_SOURCE")
UNWANTED: tuple[str, ...] = ("-O", "-g", "-flto", "-fno-lto", "-ffat-lto", "-fsanitize")
UNWANTED += ("-fprofile", "-pg", "-W", "-ftest-coverage", "--coverage", "-fcoverage", *FORTIFY)
UNWANTED += ("-fembed-bitcode", "-fstack-clash", "-fcf-protection", "-fstack-protector")
UNWANTED += ("-pedantic",)
# What is the object's alone: where it goes, and files beside it.
OBJECTS = ("-o", "--output", "-x", "--language", "--compile", "-l", "-Wl,", *DEPENDENCY_VALUES)
OBJECTS += ("-save-temps", "--save-temps", "-ftime-trace", "-fsave-optimization-record")
OBJECTS += ("-foptimization-record", "-fstack-usage", "-fproc-stat-report")
BITCODE: tuple[str, ...] = ("-O1", "-Xclang", "-disable-llvm-passes", "-g", "-w", "-Wno-error")
BITCODE += ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0", "-fno-discard-value-names")
BITCODE += ("-emit-llvm", "-c")
# With a precompiled header, which fits only the options that it was made with.
FITTING: tuple[str, ...] = ("-Xclang", "-disable-llvm-passes", "-Xclang", "-disable-O0-optnone")
FITTING += ("-w", "-emit-llvm", "-g", "-c")


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
    """With the words of @files in their place. ValueError: one names itself, is garbled, or is no
    file that could be read twice."""
    out: list[str] = []
    for word in words:
        path = Path(word[1:])
        if word.startswith("@") and path.exists():
            if word in within or not is_regular(word[1:]):
                raise ValueError(word)
            more = shlex.split(path.read_text(errors="surrogateescape"))
            out += expand(more, within | {word})
        else:
            out.append(word)
    return out


def is_regular(name: str) -> bool:
    """Whether two compilers can read it: no pipe, and not by a descriptor of the first alone."""
    path = Path(name)
    return path.is_file() and not str(path.absolute()).startswith(("/dev/", "/proc/"))


def read(words: list[str]) -> Command:
    command = Command(words)
    language = ""
    place = 0
    while place < len(words):
        word = words[place]
        name, joined, value = word.partition("=")
        if word in ELSEWHERE or word.startswith(APART) or word == "-":
            command.apart = True
        elif word in ("-c", "--compile"):
            command.compiles = True
        elif word in VALUED:
            value = words[place + 1] if place + 1 < len(words) else ""
            if word in OUTPUT:
                command.output = value
            elif word in LANGUAGE:
                language = value.removeprefix("none")
            command.apart |= word not in WRITTEN and Path(value).is_fifo()
            place += 1
        elif joined and name == "--output":
            command.output = value
        elif joined and name == "--language":
            language = value.removeprefix("none")
        elif word.startswith("-o"):
            command.output = word[2:]
        elif word.startswith("-x"):
            language = word[2:].removeprefix("none")
        elif not word.startswith("-"):
            if language in ("c", "c++"):
                command.languages[word] = language
            if word in command.languages or (not language and Path(word).suffix in SOURCES):
                command.sources.append(place)
                command.apart |= Path(word).exists() and not is_regular(word)
        place += 1
    return command


def values(words: list[str], option: str) -> list[str]:
    """What the option is given, joined or in the next word."""
    out: list[str] = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith(option):
            out.append(word.removeprefix(option) or following)
    return out


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


def of_meaning(words: list[str], unwanted: tuple[str, ...], unknown: Collection[str]) -> list[str]:
    """The options that the bitcode needs, without `unwanted` and `unknown`."""
    out: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in unknown or word.partition("=")[2] in unknown:
            continue
        if word.startswith("-Wp,"):
            out += filter(None, [for_preprocessor(word)])
        elif word in VALUED:
            value = next(rest, "")
            if word == "-Xclang" and value in WRITTEN:
                next(rest, None)  # -Xclang
                next(rest, None)
            elif word not in WRITTEN and not (word + value).startswith((*unwanted, *OBJECTS)):
                out += [word, value]
        elif word in DEPENDENCIES or word in ("-c", "-v"):
            continue
        elif word.startswith("-") and not word.startswith((*unwanted, *OBJECTS)):
            out.append(word)
    return out


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
    `unknown`: without these options or values. Ours stand first: an option that we don't know to
    have a value in the next word cannot take one of them for it."""
    unwanted = ("-g0",) if fitting else UNWANTED
    language = command.languages.get(source)
    ours = [*(FITTING if fitting else BITCODE), "-o", str(target)]
    ours += ["-x", language, source] if language else [source]
    return [compiler, *ours, *of_meaning(command.words, unwanted, unknown)]
