"""Makes tests/lifetime/golden: token lists, two small models (f32 and int8), what Python's
reference predicts from them, a model that is sure of itself, and one whose odds are no numbers.
`python tests/lifetime/make_golden.py [FOLDER]`;
python/tests/test_model_file.py checks that it still makes the same."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from strata.learn import forecast, model_file, tokens
from strata.learn.model_file import (
    CLASSES,
    EMBEDDING,
    GATES,
    HEAD,
    HIDDEN,
    SIZES,
    Known,
    Model,
    Weights,
    hash_of_stack,
)

NAMES = [
    "main",
    "_start",
    "createStringObject",
    "sds_new_len",
    "malloc@@GLIBC_2.2.5",
    "work.constprop.0",
    ".hidden",
    "",
    "_Z3foov",
    "_ZN5outer5inner8functionEv",
    "_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJRKiEEEvN9__gnu_cxx17__normal_iteratorIPiS1_EEDpOT_",
    "_ZN4core3fmt5write17h0123456789abcdefE",
    "_ZN3abcILi42EE4evenEv.isra.0",
    "_ZN3abcILin42EE4evenEv",
    "_ZN1a1b99999too_long",
    "_ZN1a",
    "_Z",
    "_ZL10local_namei",
    "_ZTV4name",
    "_ZTS12",
    "_RNvC6my_app4main",
    "std::vector<int, std::allocator<int> >::push_back(int const&)",
    "135afc8c6d1b9e02+0x4a60",
    "135afc8c6d1b9e02+0x",
    "+0x12",
    "libfoo.so+0x12",
    "größe_von",
    " ".join(f"t{n}" for n in range(20)),
    "main <135afc8c6d1b9e02+0x1139>",
    "135afc8c6d1b9e02+0x4a60 <135afc8c6d1b9e02+0x4a91>",
    " <135afc8c6d1b9e02+0x12>",
    "<135afc8c6d1b9e02+0x12>",
    "std::vector <int>",
    "f <>",
    "f <a+0x1> <b+0x2>",
    ">",
]
STACKS = [
    (["malloc_wrapper", "_ZN5outer5inner8functionEv", "main"], 64),
    (["sds_new_len", "createStringObject", "135afc8c6d1b9e02+0x4a60", "main"], 1),
    (["unknown", "", "main"], 0),
    ([], 4096),
    (["_Z3foov"] * 70, 3 << 20),
    ([f"fn_{n}" for n in range(20)], 1 << 40),
    (["createStringObject"], 96),
    (["createStringObject", "main <135afc8c6d1b9e02+0x1139>"], 96),
    (["createStringObject", "main <135afc8c6d1b9e02+0x1140>"], 96),
    (["createStringObject"], 104),
    (["createStringObject"], 7),
    (["known", "main <135afc8c6d1b9e02+0x1139>"], 96),
    (["known", "main <135afc8c6d1b9e02+0x1139>"], 112),
    (["known"] * 70, 64),
]
KNOWN = {
    hash_of_stack(STACKS[-3][0], 96): Known(3, bytes([10, 0, 240, 5, 0, 0, 0, 0])),
    hash_of_stack(STACKS[-1][0], 64): Known(8, bytes([0] * 7 + [255])),
    hash_of_stack(["known", "late"], 64): Known(7, bytes([200, 0, 0, 0, 0, 0, 50, 5])),
}


def random_weights(rows: int) -> Weights:
    random = np.random.default_rng(11)

    def normal(*shape: int) -> model_file.Array:
        return random.normal(0, 0.4, shape).astype(np.float32)

    return Weights(
        normal(rows, EMBEDDING),
        normal(EMBEDDING, GATES),
        normal(HIDDEN, GATES),
        normal(GATES),
        normal(GATES),
        normal(HIDDEN, HEAD),
        normal(HEAD),
    )


def sure_model(staying: bytes = b"Staying") -> Model:
    """Class 8 if a function called `Staying` is on the stack, either class if one called `Maybe`
    is, class 8 of seven in eight if one called `Mostly` is, else class 3, and objects end as their
    class says; but where `Seldom` is on the stack they die within class 3, and the class is 8. Two
    units of the state remember: their update gates let nothing else in."""
    words = [b"Maybe", staying, b"Seldom", b"Mostly"]
    stays, maybe, seldom, mostly = 0, 1, 2, 3  # columns of the embedding
    update, new = HIDDEN, 2 * HIDDEN  # the first unit's gates
    embedding = np.zeros((1 + len(words) + SIZES, EMBEDDING), np.float32)
    embedding[1, maybe] = embedding[2, stays] = embedding[3, seldom] = 1
    embedding[4, mostly] = 1
    incoming = np.zeros((EMBEDDING, GATES), np.float32)
    incoming[[stays, maybe, mostly], update] = -40
    incoming[mostly, new] = np.arctanh(0.6)
    incoming[stays, new], incoming[maybe, new] = 10, np.arctanh(0.5)
    incoming[seldom, [update + 1, new + 1]] = -40, 10
    bias = np.zeros(GATES, np.float32)
    bias[[update, update + 1]] = 20
    head = np.zeros((HIDDEN, HEAD), np.float32)
    head_bias = np.zeros(HEAD, np.float32)
    for half in (0, CLASSES):  # the class, and how its objects end
        head[0, half + 7] = 20
        head_bias[half + 2] = 10
    head[1, 7] = 20
    hidden = np.zeros((HIDDEN, GATES), np.float32)
    none = np.zeros(GATES, np.float32)
    weights = Weights(embedding, incoming, hidden, bias, none, head, head_bias)
    return Model(words, weights, [], {"programs": ["sure"]}, True)


def make(folder: Path) -> None:
    sure = sure_model()
    model_file.write(sure, Path(folder, "sure.model"))
    sure.weights.head_bias[:] = np.nan
    model_file.write(sure, Path(folder, "nan.model"))
    lines = []
    for name in NAMES:
        hashes = [f"{tokens.hash_of(token):016x}" for token in tokens.tokens_of(name)]
        if site := tokens.site_of(name):
            hashes.append(f"@{tokens.hash_of(site):016x}")
        lines.append(f"{name}\t{' '.join(hashes)}\n")
    Path(folder, "tokens.txt").write_text("".join(lines), encoding="utf-8")
    words = sorted({token for name in NAMES for token in tokens.tokens_of(name)})
    words += sorted({tokens.site_of(name) for name in NAMES} - {b""})
    weights = random_weights(1 + len(words) + SIZES)
    for kind in ("f32", "int8"):
        about = {"programs": ["golden"]}
        made = Model(words, weights, ["ab" * 20], about, kind == "int8", known=KNOWN)
        path = Path(folder, f"{kind}.model")
        model_file.write(made, path)
        model = model_file.load(path)
        rows = []
        for stack, size in STACKS:
            said = np.concatenate(forecast.predict(model, stack, size))
            numbers = " ".join(f"{number:.9g}" for number in said)
            rows.append(f"{size}\t{numbers}\t{';'.join(stack)}\n")
        Path(folder, f"{kind}.txt").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "golden")
