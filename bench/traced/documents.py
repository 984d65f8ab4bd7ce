"""A program to be recorded: Python reads JSON documents, changes and writes them, and compiles a
module of its own. With PYTHONMALLOC=malloc every object is a block."""

import ast
import json
import random

DOCUMENTS = 60
SOURCE = "\n".join(
    f"class Shape{n}:\n"
    f"    sides = {n}\n"
    f"    def area(self, width, height={n}):\n"
    f"        return [width * height + k for k in range({n}) if k % 3 != self.sides]\n"
    for n in range(40)
)


def document(chance: random.Random, depth: int) -> object:
    """A tree of lists, dictionaries, strings and numbers."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice([None, True, chance.random(), chance.getrandbits(40), "x" * depth])
    keys = [f"key{chance.randrange(50)}" for _ in range(chance.randrange(1, 7))]
    if chance.random() < 0.4:
        return [document(chance, depth - 1) for _ in keys]
    return {key: document(chance, depth - 1) for key in keys}


def main() -> None:
    chance = random.Random(5)
    kept: list[str] = []
    for number in range(DOCUMENTS):
        text = json.dumps(document(chance, 7), indent=1)
        back = json.loads(text)
        if isinstance(back, dict):
            back["words"] = sorted({word.strip('",:') for word in text.split()})
        kept.append(json.dumps(back))
        if number % 3 == 0:
            kept.pop(chance.randrange(len(kept)))
        if number % 50 == 0:
            exec(compile(ast.parse(SOURCE), "shapes", "exec"), {})
    print(sum(map(len, kept)))


main()
