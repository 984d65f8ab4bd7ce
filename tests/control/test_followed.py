"""Every advice of the report and of the doctor has a test that follows it.

An advice is a call of look, act or mend, the latter with something to type. A test names the ones
that it follows, by words of theirs that no other has: @follows(...) of advising.py, which also sees
to it that they were given. Words that vary within one call are one advice here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from blackbox import ROOT

HERE = Path(__file__).resolve().parent
TOLD_IN = ("report", "doctor")
GIVES = ("look", "act", "mend")
FIXES_FROM = 3  # arguments of mend: the rule, the weight, what it says; then what mends it
# What no test can follow, and why.
NOT_FOLLOWED = {
    "or the kernel found no free ones": "takes a machine whose memory is all in pieces",
    "see thp, thp-defrag and thp-allowed": "the same",
    "this machine is short of it, whatever the allocator does": "takes all of a machine's memory",
    "this kernel is built without transparent hugepages": "takes another kernel",
    "has no restartable sequences": "takes another kernel",
    "cannot rebuild a hugepage on request": "takes another kernel",
    "does not number the CPUs in use without holes": "takes another kernel",
    "does not register restartable sequences": "takes another C library",
}


def words_of(node: ast.AST, constants: dict[str, str]) -> str:
    """The literal text of an expression; what is put in for a value splits it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.JoinedStr(values=parts):
            return "".join(
                words_of(part, constants)
                if isinstance(part, ast.Constant)
                else f"\0{words_of(part, constants)}\0"
                for part in parts
            )
    return "\0".join(words_of(child, constants) for child in ast.iter_child_nodes(node))


def constants_of(module: ast.Module) -> dict[str, str]:
    found = {}
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                found[name] = text
    return found


def is_advice(call: ast.Call) -> bool:
    names = names_in(call)
    return bool(names & set(GIVES)) and not ("mend" in names and len(call.args) <= FIXES_FROM)


def names_in(call: ast.Call) -> set[str]:
    """Of the function, also as a module's."""
    nodes = list(ast.walk(call.func))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in TOLD_IN:
        for path in sorted((ROOT / "python/strata" / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def advices_in(path: str, module: ast.Module) -> Iterator[tuple[str, str]]:
    """Where each stands, and its words."""
    constants = constants_of(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and is_advice(node):
            parts = [words_of(part, constants) for part in [*node.args, *node.keywords]]
            yield f"{path}:{node.lineno}:{node.col_offset}", "\0".join(parts)


def followed() -> Iterator[str]:
    for path in sorted(HERE.glob("test_*.py")):
        for test in ast.walk(ast.parse(path.read_text())):
            if not isinstance(test, ast.FunctionDef):
                continue
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "follows":
                    yield from (ast.literal_eval(phrase) for phrase in mark.args)


def test_every_advice_is_followed_by_a_test() -> None:
    told = {place: words for each in modules() for place, words in advices_in(*each)}
    phrases = {*followed(), *NOT_FOLLOWED}
    given_by = {
        phrase: [place for place, words in told.items() if phrase in words] for phrase in phrases
    }
    vague = {phrase: places for phrase, places in given_by.items() if len(places) != 1}
    assert not vague, "words of one advice each"
    known = {places[0] for places in given_by.values()}
    assert sorted(told.keys() - known) == [], "no test follows these: give one @follows"


def test_what_is_not_followed_has_no_test() -> None:
    assert not set(followed()) & set(NOT_FOLLOWED)


def test_advices_are_found_however_they_are_called() -> None:
    text = "one = (look('a'), advice.act('b')); mend('rule', 1, 'c', 'fix'); mend('rule', 1, 'd')"
    told = dict(advices_in("x.py", ast.parse(text)))
    assert sorted(words.split("\0")[-1] for words in told.values()) == ["a", "b", "fix"]


def test_an_advice_is_made_by_nothing_else() -> None:
    makers = {"python/strata/report/advice.py": "Advice", "python/strata/doctor/view.py": "Finding"}
    for path, module in modules():
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                made = names_in(node) & set(makers.values())
                assert made <= {makers.get(path)}, f"{path}:{node.lineno}: use {GIVES}"
