"""The house rules: importing is cheap, names and versions agree, tests and docstrings are where one looks for them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import loopwise

ROOT = Path(__file__).resolve().parents[1]


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("module", ["loopwise", "loopwise.cli.main"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    heavy = ("torch", "numba", "scipy", "matplotlib")
    assert run_python(f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_every_public_name_exists() -> None:
    assert len(set(loopwise.__all__)) == len(loopwise.__all__)
    for name in loopwise.__all__:
        assert getattr(loopwise, name) is not None
        assert name in dir(loopwise)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        loopwise.nonsense  # noqa: B018


def test_the_top_is_small() -> None:
    """About forty names for newcomers, beside the stages."""
    names = [name for name in loopwise.__all__ if name not in loopwise._SUBMODULES]
    assert 35 <= len(names) <= 50


MOVED = [(stage, name) for stage, names in loopwise._MOVED.items() for name in names]


def test_no_name_is_at_two_places() -> None:
    names = [name for _, name in MOVED]
    assert len(set(names)) == len(names) and not set(names) & set(loopwise.__all__)


@pytest.mark.parametrize(("stage", "name"), MOVED)
def test_moved_names_are_still_found_and_say_where_they_are(stage: str, name: str) -> None:
    now = loopwise._RENAMED.get(name, name)
    with pytest.warns(DeprecationWarning, match=rf"lw\.{name} has moved to lw\.{stage}\.{now}; .* 0\.2") as told:
        old = getattr(loopwise, name)
    assert old is getattr(getattr(loopwise, stage), now)
    assert told[0].filename == __file__ and name not in dir(loopwise)


@pytest.mark.parametrize(
    ("stage", "old", "new"),
    [
        ("inference", "Given", "ExplicitCounting"),
        ("apps.coref", "Way", "Variant"),
        ("apps.coref", "published_ways", "published_variants"),
        ("apps.chain", "Decoder", "ChainDecoder"),
        ("apps.chain", "Learner", "ChainLearner"),
        ("apps.chain", "Ranked", "RankedAnswer"),
        ("apps.chain", "Report", "TaggingReport"),
        ("apps.multilabel", "Decoder", "LabelDecoder"),
        ("apps.multilabel", "Learner", "LabelLearner"),
        ("apps.multilabel", "Report", "MultiLabelReport"),
        ("apps.parser", "Comparison", "ParserComparison"),
        ("apps.parser", "Prepared", "PreparedSentences"),
        ("apps.parser", "Scores", "AttachmentScores"),
        ("apps.parser", "Tree", "ParseTree"),
        ("budget", "Independent", "IndependentThresholds"),
        ("budget", "Method", "BudgetCurve"),
        ("budget", "Step", "PresenceStep"),
        ("budget", "Threshold", "RandomThreshold"),
        ("decode", "Schedule", "TemperatureSchedule"),
        ("formats", "Limits", "ReadingLimits"),
        ("apps.chain", "ERM", "ChainERM"),
        ("apps.chain", "Hamming", "TokenHamming"),
        ("apps.chain", "Likelihood", "ChainLikelihood"),
        ("apps.chain", "Perceptron", "ChainPerceptron"),
        ("apps.chain", "SVM", "ChainSVM"),
        ("apps.chain", "SampleRank", "ChainSampleRank"),
        ("apps.multilabel", "CD", "LabelCD"),
        ("apps.multilabel", "ERM", "LabelERM"),
        ("apps.multilabel", "Hybrid", "LabelHybrid"),
        ("apps.multilabel", "Likelihood", "LabelLikelihood"),
        ("apps.multilabel", "PCD", "LabelPCD"),
        ("apps.multilabel", "Pegasos", "LabelPegasos"),
        ("apps.multilabel", "Perceptron", "LabelPerceptron"),
        ("apps.multilabel", "SampleRank", "LabelSampleRank"),
        ("apps.multilabel", "SampleRankSVM", "LabelSampleRankSVM"),
        ("apps.multilabel", "SampleRankSVM1", "LabelSampleRankSVM1"),
        ("apps.coref", "Report", "CorefReport"),
        ("apps.dedupe", "Answer", "PairAnswer"),
        ("apps.dedupe", "Report", "DedupeReport"),
        ("apps.dedupe", "Training", "DedupeTraining"),
        ("apps.parser", "L2", "SquaredDistance"),
        ("apps.table", "Chain", "ColumnChain"),
        ("apps.table", "Edges", "ColumnPairs"),
        ("apps.table", "Tree", "ColumnTree"),
        ("budget", "Cells", "CellCost"),
        ("budget", "Factors", "FactorCost"),
        ("budget", "Messages", "MessageCost"),
        ("budget", "Sweeps", "SweepCost"),
        ("decode", "Decoder", "BeliefDecoder"),
        ("loss", "Objective", "LikelihoodObjective"),
        ("loss.metric", "EntityF1", "EntityF1Score"),
        ("loss.metric", "F1", "F1Score"),
        ("loss.metric", "FBeta", "FBetaScore"),
        ("potentials.priors", "Group", "GroupSparsity"),
        ("walk", "Compiled", "CompiledWalks"),
        ("walk", "Gibbs", "GibbsChange"),
        ("walk", "Engine", "WalkEngine"),
        ("walk", "Epoch", "WalkEpoch"),
    ],
)
def test_renamed_names_are_still_found_and_say_what_they_are_called(stage: str, old: str, new: str) -> None:
    module = importlib.import_module(f"loopwise.{stage}")
    with pytest.warns(DeprecationWarning, match=rf"lw\.{stage}\.{old} is now called lw\.{stage}\.{new}; .*") as told:
        found = getattr(module, old)
    assert found is getattr(module, new) and told[0].filename == __file__ and old not in dir(module)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tagger", "chain"),
        ("chain_crf", "chain"),
        ("mrf", "table"),
        ("parser.parser", "parser.estimator"),
        ("parser.evaluation", "parser.report"),
    ],
)
def test_moved_modules_are_still_found_and_say_where_they_are(old: str, new: str) -> None:
    sys.modules.pop(f"loopwise.apps.{old}", None)
    with pytest.warns(DeprecationWarning, match=rf"^loopwise\.apps\.{old} has moved to loopwise\.apps\.{new};") as told:
        exec(f"import loopwise.apps.{old}", {"__name__": __name__})
    now, then = importlib.import_module(f"loopwise.apps.{new}"), sys.modules[f"loopwise.apps.{old}"]
    public = getattr(now, "__all__", [name for name in vars(then) if name[0].isalpha() and name != "moved_module"])
    assert public and all(getattr(then, name) is getattr(now, name) for name in public)
    assert told[0].filename == "<string>"


def test_names_that_stay_say_nothing() -> None:
    code = "import loopwise as lw; [getattr(lw, name) for name in lw.__all__]"
    run_python(f"import warnings; warnings.filterwarnings('error', message='lw[.]'); {code}")


@pytest.mark.parametrize("stage", ["gradient", "inference"])
def test_names_of_a_stage_are_found_by_type_checkers_too(stage: str) -> None:
    import ast

    module = getattr(loopwise, stage)
    block = next(node for node in ast.parse(Path(module.__file__).read_text()).body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == set(module.__all__) <= set(dir(module))
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match=f"module 'loopwise.{stage}' has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    """The names imported for type checkers are those that are there at run time."""
    import ast

    tree = ast.parse((ROOT / "src/loopwise/__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == set(loopwise.__all__)


def test_versions_agree() -> None:
    declared = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
    assert declared == loopwise.__version__ == version("loopwise")
    shown = subprocess.run(
        [sys.executable, "-m", "loopwise", "--version"], check=True, capture_output=True, text=True
    ).stdout
    assert shown.split() == ["loopwise", declared]
    assert f"\nversion: {declared}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src/loopwise/py.typed").exists()


# ---------------------------------------------------------------------------------------------- what stands where

SOURCE, TESTS = ROOT / "src" / "loopwise", ROOT / "tests"


def has_tests(path: Path) -> bool:
    """Whether a test stands at the place that mirrors a module's."""
    import ast

    mirrored = TESTS / path.relative_to(SOURCE).parent / f"test_{path.name}"
    if not mirrored.exists():
        return False
    return any(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for node in ast.walk(ast.parse(mirrored.read_text()))
    )


def test_tests_mirror_the_package() -> None:
    """Of at least four files in five, kernels included, tests are found by the name of the file."""
    modules = [path for path in SOURCE.rglob("*.py") if not path.name.startswith("__")]
    missing = sorted(str(path.relative_to(SOURCE)) for path in modules if not has_tests(path))
    assert len(missing) <= 0.2 * len(modules), f"{len(missing)} of {len(modules)} files without tests: {missing}"


def test_tests_stand_where_they_are_looked_for() -> None:
    """Helpers have no tests, tests are no helpers: whatever is shared stands in tests/oracles."""
    folders = ("oracles", "fuzz")
    strays = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if not path.name.startswith("test_")
        and path.name != "conftest.py"
        and path.relative_to(TESTS).parts[0] not in folders
    ]
    assert strays == []


def test_no_folder_is_crowded() -> None:
    """About 25 files at most: what belongs together has a folder of its own."""
    folders = [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]
    many = {str(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in many.items() if count > 27} == {}


# ----------------------------------------------------------------------------------------------- what is documented


def lacks(thing: object) -> list[str]:
    """The parts that the docstring of a public class or function does not have."""
    import enum
    import inspect

    text, found = inspect.getdoc(thing) or "", []
    signature = None if isinstance(thing, enum.EnumMeta) else inspect.signature(thing)  # type: ignore[arg-type]
    if signature is not None and signature.parameters and not re.search(r"Parameters\n-+\n", text):
        found.append("Parameters")
    gives = not isinstance(thing, type) and signature is not None and signature.return_annotation not in (None, "None")
    if gives and not re.search(r"Returns\n-+\n", text):
        found.append("Returns")
    if ">>> " not in text:
        found.append("an example")
    return found


@pytest.mark.parametrize("module", ["loopwise", "loopwise.apps"])
def test_public_names_are_documented(module: str) -> None:
    from importlib import import_module
    from types import ModuleType

    holder = import_module(module)
    things = {name: getattr(holder, name) for name in holder.__all__}
    documented = {
        name: thing for name, thing in things.items() if callable(thing) and not isinstance(thing, ModuleType)
    }
    assert len(documented) > 10
    assert {name: lacks(thing) for name, thing in documented.items() if lacks(thing)} == {}


def test_what_contributors_are_told_of_exists() -> None:
    """Files, folders and make targets that the pages for those who carry on name."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    hidden = (ROOT / ".github/workflows/ci.yml", ROOT / ".pre-commit-config.yaml")
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "docs/architecture.md"]
    pages += [*(ROOT / "docs/decisions").glob("*.md"), *hidden]
    files = {path.name for folder in (SOURCE, ROOT / "studies") for path in folder.rglob("*.*")}
    missing = []
    for page in pages:
        text = page.read_text()
        named = re.findall(r"`([\w./]+/[\w./]*|\w+\.(?:py|md|toml|yml|txt|cff|yaml))`", text)
        links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
        for name in [*named, *links]:
            if "NAME" in name or name in ("dist/", "kernels/"):  # to be filled in; made; each stage's own
                continue
            if name not in files and not any((home / name).exists() for home in (ROOT, SOURCE, page.parent)):
                missing.append(f"{page.name}: {name}")
        asked = re.findall(r"(?:`|run: |entry: |^)make ([a-z]+)", text, re.MULTILINE)
        missing += [f"{page.name}: make {target}" for target in asked if target not in targets]
    assert missing == []


# ------------------------------------------------------------------------------------------------- what is called how


def test_no_function_takes_too_many_arguments() -> None:
    """About ten at most, in kernels and commands too; what users call with names (fit, constructors) may have more."""
    import ast

    offered = {"__init__", "fit", "pareto", "search_legs"}
    offered |= {"block_back", "check_back", "remember_back"}  # spliced into one loop over checks, which has its arrays
    many = []
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts in (("cli", "decode.py"), ("cli", "dedupe.py")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name not in offered:
                taken = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len([name for name in taken if name not in ("self", "cls")]) > 10:
                    many.append(f"{path.relative_to(SOURCE)}: {node.name}")
    assert many == []


def test_a_class_name_is_used_once() -> None:
    """What a class is called says which one it is, wherever the name is met: in the package and in the studies."""
    import ast
    from collections import Counter

    names = Counter(
        node.name
        for folder in (SOURCE, ROOT / "studies")
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == set()
