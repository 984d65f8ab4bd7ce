"""What to do about predictions of lifetimes. Rules as in advice.py."""

from __future__ import annotations

from strata.report.advice import MUCH, Advice, fine, look, share
from strata.report.predictions import Kept, Verdict
from strata.stats import human

ENOUGH_RIGHT = 0.8  # within one class; the paper's predictions of new builds are no better
HUGEPAGE = 2 << 20
LITTLE = 0.95


def accuracy(verdict: Verdict) -> Advice:
    whole = verdict.judged + verdict.open
    early = f" Of {share(verdict.open, whole)} it is too early to tell." if verdict.open else ""
    if not verdict.judged:
        return fine("It is too early to tell whether any prediction is right.")
    near = verdict.right + verdict.near
    text = (
        f"Of the bytes that can be judged, {share(verdict.right, verdict.judged)} were predicted "
        f"right, {share(near, verdict.judged)} within one class.{early}"
    )
    if near < ENOUGH_RIGHT * verdict.judged:
        return look(
            f"{text} Record the program as it is now, train a model anew, and run with that:",
            "strata run --learn DIR -- COMMAND; strata train DIR -o FILE; "
            "strata run --model FILE -- COMMAND",
        )
    return fine(text)


def wrong_sites(verdict: Verdict, site: str) -> Advice:
    far = verdict.far
    if far > 0.05 * verdict.judged:
        return look(
            f"{share(far, verdict.judged)} of the bytes are two classes off or more, first of all "
            f"those of {site}. If the recording for the model ended before such objects died, "
            "record for longer, and train the model anew."
        )
    return fine("No call site of weight is two classes off or more.")


def saved(held: float, without: float) -> Advice:
    """What the heap holds, and the estimate of what it would hold."""
    less = without - held
    if less >= MUCH and held <= LITTLE * without:
        return fine(
            f"The heap holds {human(held)}. Without predictions the same samples would hold about "
            f"{human(without)}: {human(less)} are saved."
        )
    return fine(
        f"The heap holds {human(held)}; without predictions it would be about {human(without)} "
        "once what can go back has gone back. That is no gain now: predictions save memory after "
        "a peak, if what stays is of the same sizes as what went."
    )


def kept_sentence(kept: Kept | None) -> str:
    if kept is None:
        return "not known: there is no fragmentation profile"
    pages = kept.in_hugepages / HUGEPAGE
    return f"{human(kept.in_hugepages)} ({pages:,.1f} hugepages), in spans {human(kept.in_pages)}"
