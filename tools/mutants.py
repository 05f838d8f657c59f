"""Test the tests: change the solver in small ways, and count how many of the changes the tests notice.

    python tools/mutants.py                        # the whole sample; exit status 1 below the required kill rate
    python tools/mutants.py --files core/newton    # only files whose path contains this
    python tools/mutants.py --resume               # continue a run that was stopped
    python tools/mutants.py --again                # run what survived the last run again, and keep the rest

A mutant is the package with one small change, such as ``+`` for ``-`` or ``<`` for ``<=``. It is killed if a test fails
or takes far too long, and it survives if all tests pass. Cosmic Ray makes the mutants. Which files are changed, which
tests are run for each of them, and which survivors are known is written in ``tools/mutants.toml``. The sample follows
from the seed and the text of each file, so it is the same in every run until a file changes.

Cosmic Ray's own runner is not used: it starts a new Python per mutant, and importing the libraries takes longer than
most of these tests. Here each mutant is tested in a fork of one process that has imported them already.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/baserate")
SETTINGS = ROOT / "tools" / "mutants.toml"
COPIED = ("src", "tests", "examples", "conftest.py", "pyproject.toml")

# Imported before the first fork: what the tests need, except for the package itself.
LIBRARIES = (
    "numpy", "pandas", "pytest", "_pytest.assertion.rewrite", "hypothesis", "cvxpy", "numba", "joblib", "tqdm",
    "scipy.optimize", "scipy.sparse.csgraph", "scipy.stats", "sklearn.base", "sklearn.utils.validation",
)  # fmt: skip

REPLACED = {
    "BinaryOperator": (
        "Add_Sub Sub_Add Mul_Div Div_Mul Pow_Mul FloorDiv_Mul Mod_Mul BitAnd_BitOr BitOr_BitAnd LShift_RShift "
        "RShift_LShift"
    ),
    "ComparisonOperator": (
        "Eq_NotEq NotEq_Eq Lt_GtE Lt_LtE LtE_Gt LtE_Lt Gt_LtE Gt_GtE GtE_Lt GtE_Gt Is_IsNot IsNot_Is"
    ),
    "UnaryOperator": "Delete_USub Delete_Not Delete_Invert",
}
OTHER_OPERATORS = (
    "AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd ReplaceBreakWithContinue "
    "ReplaceContinueWithBreak NumberReplacer RemoveDecorator ZeroIterationForLoop"
)


class ReplaceAugmentedAssignment(Operator):  # type: ignore[misc]  # Cosmic Ray has no types
    """Replaces ``+=`` by ``-=``, ``*=`` by ``/=`` and the reverse, which Cosmic Ray's operators leave alone."""

    SWAPPED = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "&=": "|=", "|=": "&="}  # noqa: RUF012  # a constant

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """The place of an augmented assignment, if the node is one."""
        if isinstance(node, parso.python.tree.Operator) and node.value in self.SWAPPED:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The node with the other assignment."""
        node.value = self.SWAPPED[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, which Cosmic Ray asks for."""
        return (Example("x += y", "x -= y"),)


@cache
def operators() -> dict[str, Operator]:
    """The mutation operators, by name.

    Cosmic Ray also replaces, for example, ``+`` by ``>>``. Such a mutant raises an error wherever it is run, so it says
    nothing about the tests.
    """
    names = [f"Replace{kind}_{pair}" for kind, pairs in REPLACED.items() for pair in pairs.split()]
    found = {name: get_operator(f"core/{name}")() for name in [*names, *OTHER_OPERATORS.split()]}
    return {**found, "ReplaceAugmentedAssignment": ReplaceAugmentedAssignment()}


class Known(NamedTuple):
    """A survivor that is explained in the settings."""

    file: str
    before: str
    after: str
    reason: str
    equivalent: bool = False


@dataclass(frozen=True)
class Settings:
    """The contents of ``tools/mutants.toml``."""

    seed: int
    sample: int
    at_least: int
    kill_rate: float
    groups: list[dict[str, Any]]
    known: list[Known]

    @classmethod
    def read(cls, path: Path = SETTINGS) -> Settings:
        """Read the settings."""
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        known = [Known(**fields) for fields in values.pop("known", [])]
        return cls(groups=values.pop("group"), known=known, **values)

    def tests(self) -> dict[str, list[str]]:
        """The tests of each file, in the order in which they are run."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            paths = [path for pattern in group["files"] for path in sorted((ROOT / PACKAGE).glob(pattern))]
            for path in paths:
                name = path.relative_to(ROOT / PACKAGE).as_posix()
                if name not in found and path.name != "__init__.py":
                    found[name] = group["tests"]
        return found


@dataclass
class Mutant:
    """One change of one file, and what the tests said about it."""

    file: str
    line: int
    operator: str
    before: str
    after: str
    code: str = field(repr=False)
    outcome: str = ""
    noticed_by: str = ""
    seconds: float = 0.0

    @property
    def survived(self) -> bool:
        return self.outcome == "survived"

    def as_json(self) -> dict[str, Any]:
        """The mutant without its code."""
        return {name: value for name, value in asdict(self).items() if name != "code"}

    def describe(self) -> str:
        """The change as two lines of a diff."""
        return f"{self.file}:{self.line} ({self.operator})\n    - {self.before}\n    + {self.after}"


# Choosing the mutants


class Candidate(NamedTuple):
    """A place where an operator can change a file."""

    operator: str
    occurrence: int
    start: tuple[int, int]


def candidates(code: str) -> list[Candidate]:
    """All places of a file that may be changed."""
    nodes, skipped = list(_walk(parso.parse(code))), sorted(skipped_ranges(code))
    found = []
    for name, operator in operators().items():
        places = [(node, start) for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (node, start) in enumerate(places):
            is_star = node.parent is not None and node.parent.type == "parameters"  # in def f(x, *, y), not a product
            if not is_star and not any(first <= start < last for first, last in skipped):
                found.append(Candidate(name, occurrence, start))
    return found


def _walk(node: Any) -> Iterator[Any]:
    """The nodes in the order in which Cosmic Ray counts them."""
    yield node
    for child in getattr(node, "children", ()):
        yield from _walk(child)


Range = tuple[tuple[int, int], tuple[int, int]]


def skipped_ranges(code: str) -> Iterator[Range]:
    """Where a change is invisible, is not a change of the program, or makes every test fail.

    These are the messages of errors and warnings, annotations, ``__repr__``, code for type checkers, abstract methods,
    the ``examples`` of losses (which are data for tests), assertions, options of ``dataclass`` and of numba.
    """
    for node in ast.walk(ast.parse(code)):
        source = ast.unparse(node) if isinstance(node, ast.expr | ast.Assign | ast.AnnAssign) else ""
        match node:
            case ast.JoinedStr() | ast.Raise() | ast.Assert() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield _range(node)
            case ast.AnnAssign(annotation=annotation):
                yield _range(annotation)
            case ast.arg(annotation=annotation) if annotation is not None:
                yield _range(annotation)
            case ast.Call(func=ast.Name(id="warn" | "TypeVar" | "njit")):
                yield _range(node)
            case ast.FunctionDef(name="__repr__" | "__str__" | "examples"):
                yield _range(node)
            case ast.FunctionDef(decorator_list=decorators) if "abstractmethod" in map(ast.unparse, decorators):
                yield _range(node)
            case ast.FunctionDef(returns=returns) if returns is not None:
                yield _range(returns)
        if source.startswith("types.") or "fastmath" in source:
            yield _range(node)
        for decorator in getattr(node, "decorator_list", ()):
            if re.search(r"dataclass|abstractmethod|cache\b", ast.unparse(decorator)):
                (line, column), end = _range(decorator)
                yield (line, column - 1), end  # with the @


def _range(node: Any) -> Range:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def choose_mutants(settings: Settings, parts: Sequence[str]) -> list[Mutant]:
    """The fixed sample: at least a few mutants per file, and of the rest more from larger files."""
    files = list(settings.tests())
    code = {file: (ROOT / PACKAGE / file).read_text(encoding="utf-8") for file in files}
    places = {file: candidates(code[file]) for file in files}
    share = settings.sample / sum(map(len, places.values()))
    chosen = []
    for file in files:
        if parts and not any(part in file for part in parts):
            continue
        order = random.Random(f"{settings.seed} {file}").sample(places[file], len(places[file]))
        wanted, seen = max(round(share * len(order)), settings.at_least), {code[file]}
        for candidate in order:
            if len(seen) > wanted:
                break
            mutated = mutate_code(code[file], operators()[candidate.operator], candidate.occurrence)
            if mutated not in seen:  # two operators may make the same change
                seen.add(mutated)
                chosen.append(_mutant(file, candidate, code[file], mutated))
    return chosen


def _mutant(file: str, candidate: Candidate, code: str, mutated: str) -> Mutant:
    old, new = code.splitlines(), mutated.splitlines()
    removed = candidate.operator == "RemoveDecorator"
    different = (i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
    line = candidate.start[0] - 1 if removed else next(different)
    return Mutant(file, line + 1, candidate.operator, old[line].strip(), "" if removed else new[line].strip(), mutated)


# Running the tests


class Finished(NamedTuple):
    """The end of one run of tests."""

    status: str
    output: str
    seconds: float

    def failing(self) -> list[str]:
        """The tests that failed."""
        return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", self.output, flags=re.MULTILINE)


@dataclass
class Worker:
    """A copy of the project in which one run of tests takes place at a time."""

    folder: Path
    pid: int = 0
    job: Any = None
    deadline: float = 0.0

    @classmethod
    def create(cls, folder: Path) -> Worker:
        """Copy the project, and compile it once."""
        for name in COPIED:
            source, target = ROOT / name, folder / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        compileall.compile_dir(folder / "src", quiet=1)
        return cls(folder)

    def start(
        self, job: Any, arguments: Sequence[str], cpu_seconds: int, *, own_cache: bool, keep_bytecode: bool
    ) -> None:
        """Run pytest in a fork of this process."""
        self.job, self.deadline = job, time.monotonic() + 5 * cpu_seconds + 60
        self.pid = os.fork()
        if self.pid == 0:
            self._run_pytest(arguments, cpu_seconds, own_cache, keep_bytecode)

    def _run_pytest(self, arguments: Sequence[str], cpu_seconds: int, own_cache: bool, keep_bytecode: bool) -> None:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with (self.folder / "output.txt").open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        os.chdir(self.folder)
        source = str(self.folder / "src")
        sys.path.insert(0, source)
        sys.dont_write_bytecode = not keep_bytecode  # a file that is changed twice in a second would look unchanged
        cache = self.folder / ("cache-of-mutant" if own_cache else "cache")
        os.environ.update(PYTHONPATH=source, NUMBA_CACHE_DIR=str(cache), PYTHONDONTWRITEBYTECODE="1")
        numba = sys.modules.get("numba.core.config")
        if numba is not None:
            numba.CACHE_DIR = str(cache)  # type: ignore[attr-defined]  # it was read when numba was imported
        status = 3
        try:
            import pytest

            plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov"]
            plugins += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # for what was imported before the fork
            status = int(pytest.main(["-q", "-m", "not stress", "--tb=line", *plugins, *arguments]))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def finished(self) -> Finished | None:
        """How the tests ended, or None if they still run."""
        if time.monotonic() > self.deadline:
            os.killpg(self.pid, signal.SIGKILL)
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        if os.WIFSIGNALED(status):
            end = "timeout" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "crash"
        else:
            end = {0: "passed", 1: "failed"}.get(os.WEXITSTATUS(status), "error")
        output = (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")
        return Finished(end, output, usage.ru_utime + usage.ru_stime)

    def mutate(self, mutant: Mutant) -> None:
        """Put the mutant in the place of the original file."""
        path = self.folder / PACKAGE / mutant.file
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(mutant.code, encoding="utf-8")

    def restore(self, file: str) -> None:
        """Put the original back, with its time of change, from which caches see that nothing is new."""
        shutil.copy2(ROOT / PACKAGE / file, self.folder / PACKAGE / file)
        shutil.rmtree(self.folder / "cache-of-mutant", ignore_errors=True)


def run_all(workers: Sequence[Worker], jobs: Iterable[Any], start: Any, end: Any) -> None:
    """Give a job to every idle worker until all are done."""
    waiting, idle, busy = list(jobs), list(workers), []
    try:
        while waiting or busy:
            while waiting and idle:
                worker = idle.pop()
                start(worker, waiting.pop(0))
                busy.append(worker)
            for worker in list(busy):
                done = worker.finished()
                if done is not None:
                    busy.remove(worker)
                    idle.append(worker)
                    end(worker, done)
            time.sleep(0.02)
    finally:
        for worker in busy:
            os.killpg(worker.pid, signal.SIGKILL)


class Unchanged(NamedTuple):
    """How the tests do on the unchanged package: the seconds that they take, and those that fail."""

    seconds: dict[str, float]
    failing: list[str]


def run_without_mutants(workers: Sequence[Worker], tests: Iterable[str]) -> Unchanged:
    """Run the tests on the unchanged package."""
    found = Unchanged({}, [])

    def start(worker: Worker, test: str) -> None:
        worker.start(test, [test], 600, own_cache=False, keep_bytecode=True)

    def end(worker: Worker, done: Finished) -> None:
        if done.status != "passed" and not done.failing():
            sys.exit(f"{worker.job} cannot be run ({done.status}):\n{done.output[-3000:]}")
        found.seconds[worker.job] = done.seconds
        found.failing.extend(done.failing())

    run_all(workers, tests, start, end)
    return found


def run_mutants(
    workers: Sequence[Worker], mutants: Sequence[Mutant], settings: Settings, unchanged: Unchanged, out: Path
) -> None:
    """Test all mutants, note the outcome in each, and save what is known so far."""
    tests, n_done = settings.tests(), 0
    waiting = [mutant for mutant in mutants if not mutant.outcome]
    ignored = [argument for test in unchanged.failing for argument in ("--deselect", test)]

    def start(worker: Worker, mutant: Mutant) -> None:
        worker.mutate(mutant)
        seconds = sum(unchanged.seconds[test] for test in tests[mutant.file])
        kernels = mutant.file.startswith("passes/kernels/")
        # Compiling takes time, and the import of the libraries is counted with every test of the unchanged package.
        limit = int(2 * seconds + (120 if kernels else 30))
        worker.start(mutant, ["-x", *ignored, *tests[mutant.file]], limit, own_cache=kernels, keep_bytecode=False)

    def end(worker: Worker, done: Finished) -> None:
        nonlocal n_done
        n_done += 1
        mutant: Mutant = worker.job
        mutant.outcome = "survived" if done.status == "passed" else "killed"
        mutant.seconds = round(done.seconds, 1)
        mutant.noticed_by = next(iter(done.failing()), done.status)
        worker.restore(mutant.file)
        out.write_text(json.dumps([one.as_json() for one in mutants if one.outcome], indent=1), encoding="utf-8")
        print(f"{n_done:4}/{len(waiting)} {mutant.outcome:8} {mutant.seconds:6.1f} s  {mutant.file}:{mutant.line}  "
              f"{mutant.operator}  {mutant.noticed_by}", flush=True)  # fmt: skip

    run_all(workers, waiting, start, end)


def recall(mutants: Iterable[Mutant], path: Path, *, again: bool) -> None:
    """Take the outcomes of an earlier run from its results, if ``again`` is true only those of killed mutants."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    names = ("file", "operator", "line", "before", "after")
    earlier = {tuple(result[name] for name in names): result for result in results}
    for mutant in mutants:
        result = earlier.get(tuple(getattr(mutant, name) for name in names))
        if result is not None and not (again and result["outcome"] == "survived"):
            mutant.outcome, mutant.noticed_by, mutant.seconds = (
                result[name] for name in ("outcome", "noticed_by", "seconds")
            )


# The report


def explanation(mutant: Mutant, known: Iterable[Known]) -> Known | None:
    """The entry of the settings that explains a survivor."""
    for one in known:
        if (one.file, one.before, one.after) == (mutant.file, mutant.before, mutant.after):
            return one
    return None


def report(mutants: Sequence[Mutant], settings: Settings) -> float:
    """Print the survivors and the kill rate; return the rate."""
    survivors = [(mutant, explanation(mutant, settings.known)) for mutant in mutants if mutant.survived]
    equivalent = [pair for pair in survivors if pair[1] is not None and pair[1].equivalent]
    explained = [pair for pair in survivors if pair[1] is not None and not pair[1].equivalent]
    new = [pair for pair in survivors if pair[1] is None]
    for title, pairs in (
        ("Survivors", new),
        ("Survivors with a known reason, which count as well", explained),
        ("Equivalent mutants, which do not count", equivalent),
    ):
        if pairs:
            print(f"\n{title}:")
        for mutant, entry in pairs:
            print(mutant.describe() + (f"\n    {entry.reason}" if entry else ""))
    print(f"\n{'file':32} {'mutants':>8} {'killed':>8} {'equivalent':>11}")
    same = Counter(mutant.file for mutant, _ in equivalent)
    killed = Counter(mutant.file for mutant in mutants if not mutant.survived)
    for file, number in Counter(mutant.file for mutant in mutants).items():
        print(f"{file:32} {number:8} {killed[file]:8} {same[file]:11}")
    n_killed, n_counted = killed.total(), len(mutants) - len(equivalent)
    rate = n_killed / max(n_counted, 1)
    print(f"\n{n_killed} of {n_counted} mutants were killed: {rate:.1%} (required: {settings.kill_rate:.0%})")
    return rate


def main() -> None:
    """Run the sample, and exit with status 1 if too many mutants survive."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", nargs="+", default=[], help="only files whose path contains one of these")
    parser.add_argument("--resume", action="store_true", help="keep the results in --out, and run only what is missing")
    parser.add_argument("--again", action="store_true", help="the same, but run survivors again")
    parser.add_argument("--out", type=Path, default=ROOT / ".mutants.json", help="where the results are written")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes, by default one per core")
    parser.add_argument("--ignore-failing", action="store_true", help="leave out tests that fail without a mutant")
    parser.add_argument("--list", action="store_true", help="print the sample without testing it")
    options = parser.parse_args()
    settings, began = Settings.read(), time.monotonic()
    mutants = choose_mutants(settings, options.files)
    if options.resume or options.again:
        recall(mutants, options.out, again=options.again)
    if options.list:
        print("\n".join(mutant.describe() for mutant in mutants))
        print(f"{len(mutants)} mutants")
        return
    if not all(mutant.outcome for mutant in mutants):
        test_mutants(mutants, settings, options)
    rate = report(mutants, settings)
    print(f"{(time.monotonic() - began) / 60:.0f} minutes")
    sys.exit(rate < settings.kill_rate)


def test_mutants(mutants: Sequence[Mutant], settings: Settings, options: argparse.Namespace) -> None:
    """Test all mutants that have no outcome yet, after the tests have passed without them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # which ends the workers, too
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # one core per worker, and no threads to fork
    for name in LIBRARIES:
        importlib.import_module(name)
    files = {mutant.file: settings.tests()[mutant.file] for mutant in mutants if not mutant.outcome}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        workers = [Worker.create(Path(folder) / str(i)) for i in range(options.workers)]
        print(f"Mutants of {len(files)} files; first the tests without them", flush=True)
        unchanged = run_without_mutants(workers, dict.fromkeys(test for tests in files.values() for test in tests))
        if unchanged.failing:
            print("These tests fail without a mutant:", *unchanged.failing, sep="\n    ")
            if not options.ignore_failing:
                sys.exit("Repair them first, or pass --ignore-failing to do without them.")
        run_mutants(workers, mutants, settings, unchanged, options.out)


if __name__ == "__main__":
    main()
