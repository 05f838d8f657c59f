"""Fuzz the library: solve many random and adversarial problems, and check each answer with formulas of our own.

    python tools/fuzz.py --cases 20000 --seed 1 --seconds 600 --workers 2
    python tools/fuzz.py --replay 1:1234            # print this case as runnable Python, and make every check

A case follows from the seed and its number alone. ``tools/fuzzing/random_problems.py`` makes it, and
``tools/fuzzing/checks.py`` checks rows, rates, certificate and gap, that applying, saving, weights and permutations
agree, and that nothing but errors of the library is raised. The exit status is 1 if anything is wrong, or if more than
0.5 % of the answers did not converge although float64 has enough digits for them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # for those who load this file from elsewhere

from fuzzing.workers import ONE_CORE, Lost, run_cases

NOT_CONVERGED = 0.005
"""The share of the answers that may stop before they reach the tolerance, without those beyond float64."""

MOST_LINES = 50
"""Findings that are printed."""

KINDS = {
    "wrong certificates": ("certificate", "whole labels"),
    "wrong gaps": ("gap",),
    "other wrong answers": (
        "rows",
        "mean",
        "rate set",
        "apply",
        "save",
        "weights",
        "permutation",
        "warning",
        "refusal",
    ),
    "unexpected exceptions": ("exception", "lost"),
    "too slow": ("time",),
}
"""The findings of the summary, each with the checks that make them."""


def solve(seed: int, case: int) -> dict[str, Any]:
    """The outcome of a case, in a process of its own."""
    from fuzzing.checks import run_case
    from fuzzing.random_problems import make_problem

    return run_case(make_problem(seed, case)).as_json()


def lost(seed: int, case: Lost) -> dict[str, Any]:
    """The outcome of a case whose process hung or died."""
    name = f"{seed}:{case.case}"
    findings = [{"case": name, "check": "lost", "text": case.reason}]
    plain = {"loss": "", "refused": "", "answered": False, "converged": True, "beyond_float64": False, "seconds": 0.0}
    return {"case": name, "findings": findings, **plain}


def fuzz(seed: int, cases: Iterator[int], workers: int, seconds: float) -> list[dict[str, Any]]:
    """The outcomes of all cases. Findings are printed as they arrive."""
    outcomes, printed = [], 0
    for outcome in run_cases(solve, seed, cases, workers, seconds):
        if isinstance(outcome, Lost):
            outcome = lost(seed, outcome)
        outcomes.append(outcome)
        for finding in outcome["findings"]:
            printed += 1
            if printed <= MOST_LINES:
                print(f"{finding['case']} {outcome['loss']} {finding['check']}: {finding['text']}", flush=True)
    if printed > MOST_LINES:
        print(f"... and {printed - MOST_LINES} more; --json writes all")
    return outcomes


def summarise(outcomes: Sequence[dict[str, Any]], seed: int) -> tuple[str, bool]:
    """One line about all cases, and whether something is wrong."""
    found = Counter(finding["check"] for outcome in outcomes for finding in outcome["findings"])
    counts = {kind: sum(found[check] for check in checks) for kind, checks in KINDS.items()}
    answers = [outcome for outcome in outcomes if outcome["answered"]]
    stopped = [outcome for outcome in answers if not outcome["converged"]]
    solvable = sum(not outcome["beyond_float64"] for outcome in answers)
    share = sum(not outcome["beyond_float64"] for outcome in stopped) / max(solvable, 1)
    slowest = max((outcome["seconds"] for outcome in outcomes), default=0.0)
    parts = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    text = (
        f"{len(outcomes)} cases, seed {seed}: {parts}, {len(stopped)} not converged "
        f"({len(stopped) / max(len(answers), 1):.2%}, or {share:.2%} without inputs beyond float64), "
        f"slowest {slowest:.1f} s"
    )
    return text, bool(sum(found.values())) or share > NOT_CONVERGED


def replay(text: str) -> bool:
    """Print a case and the results of all checks; return whether something is wrong."""
    from fuzzing.checks import run_case
    from fuzzing.random_problems import make_problem

    seed, _, case = text.partition(":")
    problem = make_problem(int(seed), int(case))
    print(problem.source())
    outcome = run_case(problem, everything=True)
    print(f"# refused: {outcome.refused}" if outcome.refused else f"# answered in {outcome.seconds:.2f} s")
    wrong = {finding.check for finding in outcome.findings}
    for name in outcome.checks:
        print(f"# {name}: {'wrong' if name in wrong else 'no objection'}")
    for finding in outcome.findings:
        print(f"# {finding}")
    return bool(wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, and return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=6000, help="number of problems")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600, help="start no case after this time")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes, by default one per core")
    parser.add_argument("--replay", metavar="SEED:CASE", help="print this case, and make every check")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all findings to this file")
    options = parser.parse_args(arguments)
    os.environ.update(ONE_CORE)
    if options.replay:
        return int(replay(options.replay))
    began = time.monotonic()
    cases = iter(range(options.first, options.first + options.cases))
    outcomes = fuzz(options.seed, cases, options.workers, options.seconds)
    if options.json:
        notable = [outcome for outcome in outcomes if outcome["findings"] or not outcome["converged"]]
        options.json.write_text(json.dumps(notable, indent=1), encoding="utf-8")
    refused = Counter(outcome["refused"] for outcome in outcomes if outcome["refused"])
    print(f"refused: {dict(refused)}; {time.monotonic() - began:.0f} s")
    text, wrong = summarise(outcomes, options.seed)
    print(text)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
