"""`strata train` makes a model of lifetimes; `strata model` says what one is, and how well it does
on other data."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.errors import StrataError
from strata.files import check_output
from strata.learn.classes import NAMES
from strata.terminal import console, say

if TYPE_CHECKING:
    import polars as pl

    from strata.learn.model_page import Score
    from strata.learn.training import Contexts, Ints, Params, Trained, Trainer

HELP = """Train a model that predicts lifetimes, and say how well it does on functions it never saw.

Each SOURCE is a data set of `strata lifetimes` (*.parquet), a profile, or a folder of profiles.
docs/learning.md says what is trained."""
TEST_HELP = """Say how well a model predicts the lifetimes in other recordings.

Each SOURCE is as for `strata train`; what is held out from training counts, too."""
SEEDS = 1 << 31


def add_to(app: typer.Typer) -> None:
    app.command("train", help=HELP)(train)
    models = typer.Typer(no_args_is_help=True, help="Look at models of lifetimes.")
    models.command("show", help="Say what a model is.")(show)
    models.command("test", help=TEST_HELP)(test)
    app.add_typer(models, name="model")


def train(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The model to write.")
    ],
    seed: Annotated[
        int, typer.Option(min=0, max=SEEDS - 1, help="Seed; the same one gives the same bytes.")
    ] = 1,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Times through the data. Default: enough for 400 steps, 10 at least."
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page that shows how well it does."),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Make weights of one byte, for a smaller file.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Train a token LSTM and LightGBM as well (slow).")
    ] = False,
) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA complains of slow machines on stderr
    from strata.learn import baselines, evaluate, known, model_file, training

    check_output(output)
    if page is not None:
        check_output(page)
    table = learnable(sources)
    can_judge = may_hold_out(table)
    whole = training.prepare(all_to_train(table))
    data = training.prepare(table, whole.tokens) if can_judge else whole
    if not can_judge:
        say("too little to hold a function out: accuracy is of the training set alone")
    network = training.FrameGru
    trainer = training.Trainer(network)
    trained = fit(trainer, data, seed, training.steps_of(data, epochs))
    if int8:
        judge_as_int8(trainer, trained, data)
    guesses: dict[str, Ints] = {
        network.name: trained.odds.argmax(axis=1).astype("int32"),
        "majority class": baselines.majority(data),
        "stack table": baselines.stack_table(data),
    }
    if compare:
        lstm = training.Trainer(training.TokenLstm)
        other = fit(lstm, data, seed, training.steps_of(data, epochs))
        guesses[lstm.network.name] = other.odds.argmax(axis=1).astype("int32")
        guesses["LightGBM"] = baselines.trees(data, seed)
    scores = judged(guesses, data)
    about = described(table, data, scores, network.name)
    builds = table["build_id"].unique().sort().to_list()
    kept = [build for build in builds if build]
    params = trained.params
    if can_judge:  # what is known of the functions that were held out is worth having
        more = max(training.epoch_of(whole), training.steps_of(whole, epochs) // 2)
        params = fit(trainer, whole, seed, more, params).params
    weights = network.weights(params)
    model = model_file.Model(whole.tokens, weights, kept, about, int8)
    predictor = evaluate.Predictor(model)
    model.known = known.stacks(table, lambda *stack: predictor.by_network(*stack).shares)
    size = model_file.write(model, output)
    if page:
        write_page(page, about, scores, trained, data)
    print_scores(scores)
    note = f"of all {len(table):,} contexts"
    console().print(f"The model, {note}: {output}, {size / 1024:,.0f} KiB", soft_wrap=True)


def read(sources: list[Path]) -> pl.DataFrame:
    import polars as pl

    from strata.learn import dataset, table

    files = [source for source in sources if source.suffix == ".parquet"]
    others = [source for source in sources if source.suffix != ".parquet"]
    with tempfile.TemporaryDirectory(prefix="strata-train-") as scratch:
        if others:
            merged = Path(scratch, "merged.parquet")
            dataset.merge(others, merged, dataset.Split(0.2, 1), say)
            files.append(merged)
        return pl.concat([table.read(file) for file in files])


def learnable(sources: list[Path]) -> pl.DataFrame:
    table = read(sources)
    if table.is_empty():
        raise StrataError("the data set is empty: there is nothing to learn from")
    if table["label"].n_unique() < 2:
        only = NAMES[table["label"][0] - 1]
        raise StrataError(f"all contexts have one class ({only}): there is nothing to learn")
    return table


def may_hold_out(table: pl.DataFrame) -> bool:
    """Whether there is something to learn without what is held out, and something held out."""
    import polars as pl

    learned = table.filter(pl.col("split") == "train")
    return learned["label"].n_unique() > 1 and (table["split"] == "test").any()


def all_to_train(table: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    return table.with_columns(pl.lit("train").alias("split"))


def fit(
    trainer: Trainer, data: Contexts, seed: int, steps: int, begin: Params | None = None
) -> Trained:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    out = console(stderr=True)
    name = trainer.network.name
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(name, total=steps)

        def advance(done: int, loss: float) -> None:
            bar.update(task, completed=done, description=f"{name}, loss {loss:.3f}")

        return trainer.fit(data, seed, steps, advance, begin)


def judge_as_int8(trainer: Trainer, trained: Trained, data: Contexts) -> None:
    """What is stated of a model is of the weights that its file has."""
    import jax.numpy as jnp

    from strata.learn import model_file, training

    kept = training.FrameGru.weights(trained.params)
    whole = model_file.Model(data.tokens, kept, is_int8=True)
    weights = model_file.parse(model_file.dump(whole)).weights
    rounded = {name: jnp.asarray(getattr(weights, name)) for name in trained.params}
    trained.odds = trainer.odds_of(rounded, data)


def judged(guesses: dict[str, Ints], data: Contexts) -> dict[str, dict[str, Score | None]]:
    from strata.learn import model_page

    return {
        split: {name: model_page.score(each, data, split) for name, each in guesses.items()}
        for split in ("train", "test")
    }


def described(
    table: pl.DataFrame, data: Contexts, scores: dict[str, dict[str, Score | None]], name: str
) -> dict[str, object]:
    found = {split: scores[split][name] for split in ("train", "test")}
    return {
        "programs": table["program"].unique().sort().to_list()[:32],
        "train": int(data.is_train.sum()),
        "test": int(data.is_test.sum()),
        "tokens": len(data.tokens),
        "accuracy": {
            split: {
                "exact": [round(x, 4) for x in each.exact],
                "near": [round(x, 4) for x in each.near],
            }
            for split, each in found.items()
            if each is not None
        },
    }


def write_page(
    page: Path,
    about: dict[str, object],
    scores: dict[str, dict[str, Score | None]],
    trained: Trained,
    data: Contexts,
) -> None:
    from strata.learn import model_page

    guesses = trained.odds.argmax(axis=1).astype("int32")
    pictured = {
        split: model_page.pictures(
            trained.losses,
            model_page.confusion(guesses, data, split),
            model_page.calibration(trained.odds, data, split),
        )
        for split in ("test", "train")
        if any(scores[split].values())
    }
    model_page.write(page, about, scores, pictured)


def print_scores(scores: dict[str, dict[str, Score | None]]) -> None:
    from rich.table import Table

    titles = {"test": "functions held out", "train": "training set"}
    for split, title in titles.items():
        table = Table(box=None, pad_edge=False)
        table.add_column(title)
        for by in ("bytes", "allocations"):
            table.add_column(f"exact, by {by}", justify="right")
            table.add_column("within one", justify="right")
        for name, each in scores[split].items():
            if each is not None:
                cells = [x for at in (0, 1) for x in (each.exact[at], each.near[at])]
                table.add_row(name, *(f"{100 * x:.1f} %" for x in cells))
        if table.row_count:
            console().print(table)


def show(file: Annotated[Path, typer.Argument(metavar="FILE")]) -> None:
    from strata.learn import model_file

    model = model_file.load(file)
    out = console()
    kind = "int8" if model.is_int8 else "f32"
    out.print(f"{file}: version {model_file.VERSION}, {kind}, {model.size / 1024:,.0f} KiB")
    out.print(f"programs: {', '.join(model.about.get('programs', []))}", soft_wrap=True)
    out.print(f"builds: {', '.join(model.builds) or 'none known'}", soft_wrap=True)
    out.print(f"classes: {', '.join(NAMES)}", soft_wrap=True)
    out.print(f"tokens: {len(model.hashes):,}; known stacks: {len(model.known):,}")
    for split, title in (("test", "functions held out"), ("train", "training set")):
        found = model.about.get("accuracy", {}).get(split)
        if found:
            exact, near = 100 * found["exact"][0], 100 * found["near"][0]
            out.print(f"{title}: {exact:.1f} % of bytes exact, {near:.1f} % within one class")


def test(
    file: Annotated[Path, typer.Argument(metavar="MODEL")],
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...")],
) -> None:
    from rich.table import Table

    from strata.learn import evaluate, model_file

    model = model_file.load(file)
    data = read(sources)
    if data.is_empty():
        raise StrataError("the data set is empty: there is nothing to test with")
    found = evaluate.test(model, data)
    table = Table(box=None, pad_edge=False)
    for title in ("by", "exact", "within one class"):
        table.add_column(title, justify="left" if title == "by" else "right")
    for by, each in (
        ("bytes", found.by_bytes),
        ("allocations", found.by_allocations),
        ("bytes, network alone", found.alone),
    ):
        table.add_row(by, f"{100 * each.exact:.1f} %", f"{100 * each.near:.1f} %")
    console().print(table)
    known = f"the model knows something of {100 * found.known:.0f} % of their frames"
    console().print(f"{found.contexts:,} contexts; {known}", soft_wrap=True)
