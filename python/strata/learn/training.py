"""Trains the frame-level GRU of docs/learning.md with JAX and optax, and, to compare, the token
LSTM of LLAMA (Maas et al., ASPLOS 2020, section 5.2). A seed gives the same weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
import polars as pl

from strata.learn import model_file
from strata.learn.model_file import CLASSES, EMBEDDING, GATES, HIDDEN, MOST_FRAMES, SIZES, Weights
from strata.learn.rows import COUNTS
from strata.learn.tokens import MOST_TOKENS, site_of, tokens_of

BATCH = 64
FEWEST_STEPS = 400
FEWEST_EPOCHS = 10
TOKEN_DROP = 0.1  # of tokens, and of fine sizes
PLACE = r" <[0-9a-f]+\+0x[0-9a-f]+>$"  # of a frame (strata/learn/tokens.py)
RATE, CLIP = 3e-3, 5.0
FORGET_BIAS = 3.5  # of the LSTM: without it long sequences do not converge
LONGEST = 200  # tokens of the LSTM's sequence: the innermost
Array = jax.Array
Params = dict[str, Array]
Tables = tuple[Array, ...]  # what a network looks frames up in
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


@dataclass
class Contexts:
    """The data set as numbers: for each context the ids of its frames, main first."""

    frames: Ints  # [n][of the longest, in eights], 0 behind the last
    sizes: Ints  # [n][2]: the rows of a coarse and a fine scale
    labels: Ints  # from 0
    shares: Floats  # [n][CLASSES] of the objects
    loss_weights: Floats
    held: Floats  # bytes, of all objects
    objects: Floats
    is_train: npt.NDArray[np.bool_]
    is_general: npt.NDArray[np.bool_]  # learned from, too, and not judged: without_places
    is_test: npt.NDArray[np.bool_]
    frame_tokens: Ints  # [1 + distinct frames][MOST_TOKENS], -1 behind the last
    frame_sites: Ints  # [1 + distinct frames], -1 where the place has no row
    tokens: list[bytes]

    @property
    def rows(self) -> int:
        return 1 + len(self.tokens) + SIZES


def commonest(counts: Counter[bytes], most: int) -> list[bytes]:
    return sorted(counts, key=lambda token: (-counts[token], token))[:most]


def vocabulary(
    stacks: list[list[str]], split: dict[str, list[bytes]], sites: dict[str, bytes]
) -> list[bytes]:
    """The words of functions, and behind them as many places as there is room for."""
    seen = [name for stack in stacks for name in set(stack)]
    words = commonest(
        Counter(token for name in seen for token in split[name]), model_file.MOST_WORDS
    )
    places = Counter(sites[name] for name in seen if sites[name])
    return words + commonest(places, model_file.MOST_TOKENS - len(words))


def without_places(table: pl.DataFrame) -> pl.DataFrame:
    """What is to be said of the contexts where their places are not known, as in another build:
    those of the same functions and size together, with the class that most objects have."""
    bare = pl.col("symbols").list.eval(pl.element().str.replace(PLACE, ""))
    same = ["symbols", "bytes", "split"]
    sums = ["objects", "weight", *COUNTS]
    return (
        table.with_columns(was=pl.col("symbols"), symbols=bare)
        .filter(pl.col("was") != pl.col("symbols"))
        .group_by([*same, "label"])
        .agg(pl.col(*sums).sum())
        .sort([*same, "objects", "label"], descending=[False, False, False, True, False])
        .group_by(same, maintain_order=True)
        .agg(pl.col("label").first(), pl.col(*sums).sum())
    )


def prepare(contexts: pl.DataFrame, words: list[bytes] | None = None) -> Contexts:
    """The contexts as numbers. With the words of a data set that has all of these contexts to learn
    from, rows mean the same as there; those of words that are only held out are not used."""
    columns = ["symbols", "bytes", "split", "label", "objects", "weight", *COUNTS]
    general = without_places(contexts)
    table = pl.concat([contexts.select(columns), general.select(columns)])
    is_general = np.arange(len(table)) >= len(contexts)
    stacks = [list(stack)[:MOST_FRAMES][::-1] for stack in table["symbols"].to_list()]
    splits = table["split"].to_numpy()
    names = sorted({name for stack in stacks for name in stack})
    split = {name: tokens_of(name) for name in names}
    seen = [stack for stack, kind in zip(stacks, splits, strict=True) if kind == "train"]
    sites = {name: site_of(name) for name in names}
    learned = vocabulary(seen, split, sites)
    tokens = learned if words is None else words
    is_learned = set(learned)
    rows = {token: row for row, token in enumerate(tokens, 1) if token in is_learned}
    frame_tokens = np.full((len(names) + 1, MOST_TOKENS), -1, np.int32)
    frame_sites = np.array([-1, *(rows.get(sites[name], -1) for name in names)], np.int32)
    for at, name in enumerate(names, 1):
        found = [rows.get(token, 0) for token in split[name]] or [0]
        frame_tokens[at, : len(found)] = found
    ids = {name: at for at, name in enumerate(names, 1)}
    longest = max(map(len, stacks), default=0)
    frames = np.zeros((len(stacks), -(-max(longest, 1) // 8) * 8), np.int32)
    for at, stack in enumerate(stacks):
        frames[at, : len(stack)] = [ids[name] for name in stack]
    objects = table["objects"].to_numpy().astype(np.float32)
    shares = table.select(pl.col(COUNTS) / pl.sum_horizontal(COUNTS)).to_numpy()
    return Contexts(
        frames,
        np.array([model_file.size_rows(size) for size in table["bytes"]], np.int32),
        table["label"].to_numpy().astype(np.int32) - 1,
        shares.astype(np.float32),
        (1 + np.log10(1 + objects)).astype(np.float32),
        table["weight"].to_numpy().astype(np.float32),
        objects,
        (splits == "train") & ~is_general,
        (splits == "train") & is_general,
        (splits == "test") & ~is_general,
        frame_tokens,
        frame_sites,
        tokens,
    )


def embedding_of(key: Array, rows: int) -> Array:
    """What the fine rows of sizes say is learned on top of the coarse ones: zero at first."""
    fine = jnp.zeros((model_file.FINE_SIZES, EMBEDDING))
    coarse = jax.random.normal(key, (rows - model_file.FINE_SIZES, EMBEDDING))
    return jnp.concatenate([0.3 * coarse, fine])


def size_of(params: Params, sizes: Array, key: Array | None) -> Array:
    rows = params["embedding"][-SIZES:]
    fine = rows[sizes[:, 1]]
    if key is not None:
        fine = jnp.where(jax.random.uniform(key, (len(sizes), 1)) < TOKEN_DROP, 0, fine)
    return jnp.asarray(rows[sizes[:, 0]] + fine)


def uniform(key: Array, shape: tuple[int, ...], bound: float) -> Array:
    return jax.random.uniform(key, shape, jnp.float32, -bound, bound)


class FrameGru:
    """Tokens of a frame are summed; a GRU goes over frames, then over the size."""

    name = "frame GRU"

    @staticmethod
    def inputs(data: Contexts) -> Ints:
        return data.frames

    @staticmethod
    def tables(data: Contexts) -> Tables:
        return jnp.asarray(data.frame_tokens), jnp.asarray(data.frame_sites)

    @staticmethod
    def start(key: Array, rows: int) -> Params:
        keys = jax.random.split(key, 4)
        bound = HIDDEN**-0.5
        return {
            "embedding": embedding_of(keys[0], rows),
            "input": uniform(keys[1], (EMBEDDING, GATES), bound),
            "hidden": uniform(keys[2], (HIDDEN, GATES), bound),
            "input_bias": jnp.zeros(GATES),
            "hidden_bias": jnp.zeros(GATES),
            "head": uniform(keys[3], (HIDDEN, model_file.HEAD), bound),
            "head_bias": jnp.zeros(model_file.HEAD),
        }

    @classmethod
    def logits(
        cls, params: Params, tables: Tables, frames: Array, sizes: Array, key: Array | None
    ) -> Array:
        frame_tokens, frame_sites = tables
        tokens = frame_tokens[frames]
        known = (tokens >= 0)[..., None]
        tokens = jnp.maximum(tokens, 0)
        sites = frame_sites[frames]
        size_key = None
        if key is not None:
            key, size_key = jax.random.split(key)
            tokens = jnp.where(jax.random.uniform(key, tokens.shape) < TOKEN_DROP, 0, tokens)
        inputs = (params["embedding"][tokens] * known).sum(axis=2)
        inputs += params["embedding"][jnp.maximum(sites, 0)] * (sites >= 0)[..., None]
        state = jnp.zeros((len(frames), HIDDEN))

        def over(state: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
            incoming, is_there = step
            return jnp.where(is_there[:, None], cls.step(params, state, incoming), state), None

        sequence = (inputs.swapaxes(0, 1), (frames > 0).swapaxes(0, 1))
        state, _ = jax.lax.scan(over, state, sequence)
        state = cls.step(params, state, size_of(params, sizes, size_key))
        return state @ params["head"] + params["head_bias"]

    @staticmethod
    def step(params: Params, state: Array, incoming: Array) -> Array:
        row = incoming @ params["input"] + params["input_bias"]
        recurrent = state @ params["hidden"] + params["hidden_bias"]
        reset, update = jnp.split(
            jax.nn.sigmoid(row[:, : 2 * HIDDEN] + recurrent[:, : 2 * HIDDEN]), 2, axis=1
        )
        new = jnp.tanh(row[:, 2 * HIDDEN :] + reset * recurrent[:, 2 * HIDDEN :])
        return (1 - update) * new + update * state

    @staticmethod
    def weights(params: Params) -> Weights:
        return Weights(**{name: np.asarray(value) for name, value in params.items()})


class TokenLstm:
    """LLAMA's: one sequence of all tokens, innermost frame first, with a mark between frames
    (the row of the last size, which no object has)."""

    name = "token LSTM"

    @staticmethod
    def inputs(data: Contexts) -> Ints:
        sequences = np.full((len(data.frames), LONGEST), -1, np.int32)
        for at, frames in enumerate(data.frames):
            tokens: list[int] = []
            for frame in frames[frames > 0][::-1]:
                known = data.frame_tokens[frame]
                tokens += [*known[known >= 0].tolist(), data.rows - 1]
            del tokens[LONGEST:]
            sequences[at, : len(tokens)] = tokens
        return sequences

    @staticmethod
    def tables(_data: Contexts) -> Tables:
        return ()

    @staticmethod
    def start(key: Array, rows: int) -> Params:
        keys = jax.random.split(key, 4)
        bound = HIDDEN**-0.5
        bias = jnp.zeros(4 * HIDDEN).at[HIDDEN : 2 * HIDDEN].set(FORGET_BIAS)
        return {
            "embedding": embedding_of(keys[0], rows),
            "input": uniform(keys[1], (EMBEDDING, 4 * HIDDEN), bound),
            "hidden": uniform(keys[2], (HIDDEN, 4 * HIDDEN), bound),
            "bias": bias,
            "head": uniform(keys[3], (HIDDEN, CLASSES), bound),
            "head_bias": jnp.zeros(CLASSES),
        }

    @staticmethod
    def logits(
        params: Params, _tables: Tables, tokens: Array, sizes: Array, key: Array | None
    ) -> Array:
        if key is not None:
            drop = jax.random.uniform(key, tokens.shape) < TOKEN_DROP
            tokens = jnp.where(drop & (tokens >= 0), 0, tokens)
        inputs = params["embedding"][jnp.maximum(tokens, 0)]
        zero = jnp.zeros((len(tokens), HIDDEN))

        def step(carry: tuple[Array, Array], incoming: Array) -> tuple[Array, Array]:
            state, cell = carry
            sums = incoming @ params["input"] + state @ params["hidden"] + params["bias"]
            enter, forget, out, new = jnp.split(sums, 4, axis=1)
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
            return jax.nn.sigmoid(out) * jnp.tanh(cell), cell

        def over(
            carry: tuple[Array, Array], row: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array], None]:
            state, cell = step(carry, row[0])
            is_there = row[1][:, None]
            return (
                jnp.where(is_there, state, carry[0]),
                jnp.where(is_there, cell, carry[1]),
            ), None

        sequence = (inputs.swapaxes(0, 1), (tokens >= 0).swapaxes(0, 1))
        carry, _ = jax.lax.scan(over, (zero, zero), sequence)
        state, _ = step(carry, size_of(params, sizes, None))
        return state @ params["head"] + params["head_bias"]


Network = type[FrameGru] | type[TokenLstm]


@dataclass
class Trained:
    params: Params
    losses: list[float]  # by epoch
    odds: Floats  # [contexts][CLASSES]


def batches(
    random: np.random.Generator, rows: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.int64]]:
    """All rows in another order, and some again so that the last batch is whole."""
    order = random.permutation(rows)
    short = -len(order) % BATCH
    order = np.concatenate([order, random.choice(rows, short)])
    yield from order.reshape(-1, BATCH)


def epoch_of(data: Contexts) -> int:
    """The steps that see all contexts once."""
    return -(-int((data.is_train | data.is_general).sum()) // BATCH)


def steps_of(data: Contexts, epochs: int | None) -> int:
    """The steps of the epochs, which are enough by default."""
    once = epoch_of(data)
    return once * (epochs or max(FEWEST_EPOCHS, -(-FEWEST_STEPS // once)))


class Trainer:
    """Of one kind of network; what is compiled for a data set serves others of its shape."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._optimizer = optax.chain(optax.clip_by_global_norm(CLIP), optax.scale_by_adam())
        self._update = jax.jit(self._step)
        self._ask = jax.jit(
            lambda params, tables, inputs, sizes: jax.nn.softmax(
                network.logits(params, tables, inputs, sizes, None)[:, :CLASSES]
            )
        )

    def fit(
        self,
        data: Contexts,
        seed: int,
        steps: int,
        progress: Callable[[int, float], None],
        begin: Params | None = None,
    ) -> Trained:
        """Trains from the parameters to begin with, or from chance; the rate falls to nothing."""
        random = np.random.default_rng(seed)
        key = jax.random.key(seed)
        params = self.network.start(key, data.rows) if begin is None else begin
        state = self._optimizer.init(params)
        inputs, tables = self.network.inputs(data), self.network.tables(data)
        columns = (inputs, data.sizes, data.labels, data.shares, data.loss_weights)
        rows = np.flatnonzero(data.is_train | data.is_general)
        losses, done = list[float](), 0
        while done < steps:
            values = []
            for picked in islice(batches(random, rows), steps - done):
                key, own = jax.random.split(key)
                batch = tuple(jnp.asarray(column[picked]) for column in columns)
                rate = RATE * (1 + np.cos(np.pi * done / steps)) / 2
                params, state, value = self._update(params, state, tables, batch, own, rate)
                values.append(float(value))
                done += 1
            losses.append(float(np.mean(values)))
            progress(done, losses[-1])
        return Trained(params, losses, self.odds_of(params, data))

    def odds_of(self, params: Params, data: Contexts) -> Floats:
        inputs, tables = self.network.inputs(data), self.network.tables(data)
        out = []
        for at in range(0, len(inputs), 4 * BATCH):
            rows = np.arange(at, at + 4 * BATCH) % len(inputs)  # one shape: compiled once
            picked = jnp.asarray(inputs[rows]), jnp.asarray(data.sizes[rows])
            out.append(np.asarray(self._ask(params, tables, *picked)))
        return np.concatenate(out)[: len(inputs)].astype(np.float32)

    def _step(
        self,
        params: Params,
        state: object,
        tables: Tables,
        batch: tuple[Array, ...],
        key: Array,
        rate: Array,
    ) -> tuple[Params, object, Array]:
        def loss(params: Params) -> Array:
            inputs, sizes, labels, shares, weights = batch
            logits = self.network.logits(params, tables, inputs, sizes, key)
            each = optax.softmax_cross_entropy_with_integer_labels(logits[:, :CLASSES], labels)
            if logits.shape[1] > CLASSES:
                each += optax.softmax_cross_entropy(logits[:, CLASSES:], shares)
            return jnp.asarray((each * weights).sum() / weights.sum())

        value, slopes = jax.value_and_grad(loss)(params)
        changes, state = self._optimizer.update(slopes, state, params)
        changes = jax.tree.map(lambda change: -rate * change, changes)
        return optax.apply_updates(params, changes), state, value
