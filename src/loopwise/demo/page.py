"""The demo's page: one HTML file with its pictures inside, which asks the network for nothing.

In: :class:`~loopwise.demo.findings.Findings`. Out: the text of the page. Every sentence about results is made
from the results: where training for the loss did not win, the page says so. Light or dark as the reader's system is.
"""

from __future__ import annotations

import html

from loopwise.demo.findings import Findings
from loopwise.demo.pictures import (
    Picture,
    after_picture,
    course_picture,
    grey_image,
    loss_picture,
    paths_picture,
    reliability_picture,
)
from loopwise.demo.summary import (
    course_sentence,
    headline,
    image_sentence,
    loss_table,
    reliability_sentence,
    sweeps_sentence,
)
from loopwise.demo.trials import LIKELIHOOD, LOSS
from loopwise.plot.page import document, html_table, png_address

TITLE = "Train for the answers you will really get"
STYLE = """
:root { --ink: #22262b; --soft: #5b636d; --ground: #ffffff; --panel: #f5f6f8; --line: #dcdfe4; --loss: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #d8d8d8; --soft: #a0a7b0; --ground: #16191d; --panel: #1f2329; --line: #363c44; --loss: #6cb8f0; }
}
* { box-sizing: border-box; }
body { font: 17px/1.6 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0; }
main { max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
p, ul { max-width: 44rem; } h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; } .lede { font-size: 1.2rem; color: var(--soft); margin-top: 0; }
.found { border-left: 4px solid var(--loss); padding: .2rem 0 .2rem 1rem; font-weight: 600; }
.row { display: grid; gap: 1.25rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
.row { align-items: start; margin: 1.25rem 0; } .row p { margin-top: 0; }
.images { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(45%, 13rem), 1fr)); }
.note { font-size: .9rem; color: var(--soft); } figure { margin: 0; }
figcaption { font-size: .9rem; color: var(--soft); margin-top: .4rem; }
img { display: block; width: 100%; height: auto; } .images img { image-rendering: pixelated; border-radius: 4px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: right; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; } td + td { white-space: nowrap; }
td:first-child, th:first-child { text-align: left; padding-left: 0; }
@media (max-width: 40rem) { body { font-size: 16px; } table { font-size: .75rem; } th, td { padding: .3rem .25rem; } }
pre { background: var(--panel); border-radius: 6px; padding: 1rem; overflow-x: auto; font-size: .85rem; }
code { font-family: ui-monospace, monospace; } footer { color: var(--soft); font-size: .9rem; margin-top: 3rem; }
"""
MINUTE = (
    "Some models predict many things at once: the tags of a sentence, the pixels of an image, the empty cells of a "
    "table. The parts of an answer depend on one another, so answering takes <em>inference</em>: neighbours send each "
    "other messages, sweep after sweep, until their beliefs settle (belief propagation, BP). Even then the beliefs are "
    "only approximate, and often there is no time to wait: inference is cut short after a few sweeps.",
    "Such models are usually trained by <em>likelihood</em>: make the data probable under the model. That is the right "
    "thing to do if inference is exact. If it is cut short, training corrects the parameters by beliefs that are not "
    "the model's, and never asks what the answers will be worth after the last sweep.",
    "loopwise takes the model <em>and</em> its cut-short inference as one system. Training runs it just as it will be "
    "used, measures the loss of its answers, and follows the derivative of that loss back through every sweep. This "
    "is empirical risk minimisation (Stoyanov, Ropson and Eisner, 2011). Below, both ways of training have the same "
    "model, data, sweeps, optimiser and number of steps.",
)
PROBLEM = (
    "The task: maps of {places} places that tend to agree with their neighbours. Of each map {given} places are seen "
    "and {asked} are asked for; the others are never seen, not even in training. What is seen must travel, so sweeps "
    "matter."
)
CODE = """\
system = lw.System(lw.TablePotentials(graph), lw.BP(iterations={budget}))
lw.fit(system, train, lw.loss.SurrogateLikelihood())       # by likelihood
lw.fit(system, train, lw.learn.staged(lw.loss.MSE()))      # or for the loss of what {budget} sweeps answer
lw.evaluate(system, test, lw.loss.MSE())"""
LIMITS = (
    "What this does not show: that likelihood always loses. With fewer or smaller steps the two trainings are closer. "
    "On the random models of the published study, where a third "
    "of the variables is seen, three sweeps bring nearly all there is to know, and in runs as short as these the two "
    "trainings end within a percent or so of each other. The images get 10 sweeps because the difference is clear "
    "there; with 3 it is smaller."
)
WARNING = (
    "This is the toy of --quick: a few tiny models, a few steps. It shows that everything runs; its numbers mean "
    "nothing. Without --quick the page takes a minute or two."
)
NEXT = {
    "loopwise fit DATA.csv --outputs y1,y2 --loss f1": "your own table, missing values and all",
    "docs/results/erma in the repository": "the published study behind this page, its numbers beside ours",
    "loopwise parser, tagger, multilabel, denoise, coref": "applications that are trained the same way",
}


def demo_page(findings: Findings, toy: bool = False) -> str:
    """The whole page; that of a ``toy`` says so first."""
    budget = findings.amounts.watched
    parts = [
        f'<main><h1>{TITLE}</h1><p class="lede">What likelihood training costs when inference is cut short, and what '
        f"training for the loss gets back. Computed on this computer in {findings.seconds:.0f} seconds.</p>",
        f"<p><strong>{WARNING}</strong></p>" if toy else "",
        "<h2>In one minute</h2>",
        *(f"<p>{text}</p>" for text in MINUTE),
        *_losses(findings),
        *_course(findings),
        *_reliability(findings),
        *_sweeps(findings),
        *_image(findings),
        "<h2>In code</h2>",
        f"<pre><code>{html.escape(CODE.format(budget=budget))}</code></pre>",
        *_facts(findings),
        "</main>",
    ]
    return document(f"loopwise: {TITLE.lower()}", "\n".join(parts), STYLE)


def _losses(findings: Findings) -> list[str]:
    amounts = findings.amounts
    places = amounts.side**2
    given, hidden = round(amounts.given * places), round(amounts.hidden * places)
    problem = PROBLEM.format(places=places, given=given, asked=places - given - hidden)
    most = max(amounts.budgets)
    notes = (
        f"Loss is the squared error of the believed probabilities on test maps, mean over {amounts.models} models. "
        f"Dotted, and in the last column: trained by likelihood with {most} sweeps, cut short only in use. "
        "Where training for the loss is below the true model, that is no mistake: BP is not exact, so the true "
        "parameters need not be the best ones for it."
    )
    return [
        "<h2>Fewer sweeps, more loss?</h2>",
        f"<p>{problem}</p>",
        f'<p class="found">{html.escape(headline(findings))}</p>',
        '<div class="row">',
        _figure(loss_picture(findings), f"Mean of {amounts.models} random models; thin lines are single ones."),
        f'<p class="note">{notes}</p>',
        "</div>",
        f'<div class="scroll">{html_table(loss_table(findings))}</div>',
    ]


def _course(findings: Findings) -> list[str]:
    budget = findings.amounts.watched
    return [
        "<h2>Is it only a matter of stopping in time?</h2>",
        '<div class="row">',
        _figure(course_picture(findings), f"Both trainings with {budget} sweeps, mean over models."),
        f"<p>{html.escape(course_sentence(findings))} Where a curve turns up, training goes on improving something "
        "else than the answers. Whoever trains by likelihood and measures the loss on held-out data after each epoch "
        "can stop at the lowest point, and should.</p>",
        "</div>",
    ]


def _reliability(findings: Findings) -> list[str]:
    return [
        "<h2>Do the beliefs mean what they say?</h2>",
        '<div class="row">',
        _figure(
            reliability_picture(findings),
            f"Test beliefs after {findings.amounts.watched} sweeps, in ten bins. Dots grow with the number of beliefs.",
        ),
        f"<p>Of all things believed with probability 0.8, 80 % should be so: on the diagonal, beliefs can be taken at "
        f"their word. {html.escape(reliability_sentence(findings))}</p>",
        "</div>",
    ]


def _sweeps(findings: Findings) -> list[str]:
    budget = findings.amounts.watched
    return [
        "<h2>Beliefs, sweep by sweep</h2>",
        f"<p>Both systems were trained for {budget} sweeps; here they are let run on. Each line is one unknown of the "
        "first test map of the first model: how probable its right value is believed to be.</p>",
        '<div class="row">',
        _figure(paths_picture(findings, LIKELIHOOD)),
        _figure(paths_picture(findings, LOSS)),
        "</div>",
        '<div class="row">',
        _figure(after_picture(findings), "All test examples: the loss of the beliefs after each sweep."),
        f"<p>{html.escape(sweeps_sentence(findings))}</p>",
        "</div>",
    ]


def _image(findings: Findings) -> list[str]:
    likely, lossy = findings.image_of(LIKELIHOOD), findings.image_of(LOSS)
    panels = {
        "with noise": grey_image(0.5 + (likely.noisy - 0.5) / 4),
        f"trained by likelihood: {100 * likely.wrong:.1f} % wrong": grey_image(likely.white),
        f"trained for the loss: {100 * lossy.wrong:.1f} % wrong": grey_image(lossy.white),
        "truth": grey_image(likely.truth.astype(float)),
    }
    return [
        "<h2>The same on an image</h2>",
        f"<p>A grid of pixels, each joined to its four neighbours, gets {findings.image.sweeps} sweeps to remove heavy "
        "noise. Grey levels are beliefs: black and white are certain, grey is not. The letters were not in the "
        f"training images; shares of wrong pixels are those of {findings.image.copies} noisy copies of them.</p>",
        '<div class="images">',
        *(_image_figure(data, name) for name, data in panels.items()),
        "</div>",
        f'<p class="found">{html.escape(image_sentence(findings))}</p>',
    ]


def _facts(findings: Findings) -> list[str]:
    amounts, image = findings.amounts, findings.image
    facts = (
        f"{amounts.models} grids of {amounts.side} x {amounts.side} binary variables, true couplings uniform from "
        f"{amounts.weakest:g} to {amounts.strongest:g}; {amounts.train} training and {amounts.test} test samples "
        f"(Gibbs) each; a free table for every pair, {amounts.epochs} epochs of Adam at rate {amounts.rate:g} from the "
        "same small random start. Training for the loss spends the first 3 epochs on likelihood, as published. Images: "
        f"{2 * image.epochs} steps of Adam, noise of standard deviation {image.noise:g} on black 0 and white 1. Seed "
        f"{findings.seed}; loopwise demo --seed N draws others."
    )
    steps = "".join(f"<li><code>{html.escape(name)}</code>: {html.escape(text)}</li>" for name, text in NEXT.items())
    return [
        f"<h2>Next</h2><ul>{steps}</ul>",
        f"<footer><p>{html.escape(LIMITS)}</p><p>What was run: {html.escape(facts)}</p></footer>",
    ]


def _figure(picture: Picture, caption: str = "") -> str:
    words = html.escape(picture.alternative, quote=True)
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{png_address(picture.dark)}">'
    shown = f'<picture>{dark}<img alt="{words}" src="{png_address(picture.light)}"></picture>'
    return f"<figure>{shown}{_caption(caption)}</figure>"


def _image_figure(data: bytes, caption: str) -> str:
    words = html.escape(caption, quote=True)
    return f'<figure><img alt="The image {words}" src="{png_address(data)}">{_caption(caption)}</figure>'


def _caption(text: str) -> str:
    return f"<figcaption>{html.escape(text)}</figcaption>" if text else ""
