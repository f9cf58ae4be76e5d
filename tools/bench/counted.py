"""P1, P2, P8, P9 and P11: counted by suite `cost`, whose programs are run and read here."""

import pathlib
import re
import subprocess
import sys

from bars import Bar

TAP = re.compile(r'(ok|not ok) \d+ - (.*)')
# Of which fact each bar is read, and how. What a fact counted stands after its last words; the first number is the one
# that is asked for.
FACTS = [
    ('P1', 'idle-callbacks', r'64 idle callbacks', lambda said: above_first(by_number(said)), '<=', 0),
    ('P1', 'subscribed-hook', r'at most 2 instructions for each', lambda said: numbers(said)[0], '<=', 2),
    ('P1', 'instructions-a-step', r'takes at most \d+ instructions', lambda said: numbers(said)[0], '<=', 60),
    ('P11', 'idle-callback-to-twin', r'text of one idle callback', lambda said: share(numbers(said)), '<=', 1),
    ('P11', 'hook-to-twin', r'text of one listening callback', lambda said: share(numbers(said)), '<=', 1),
]


def numbers(said: str) -> list[float]:
    return [float(each) for each in re.findall(r'-?\d+(?:\.\d+)?', said)]


def by_number(said: str) -> list[float]:
    return numbers(re.sub(r'\d+: ', '', said))


def above_first(counts: list[float]) -> float:
    return max(counts) - counts[0]


def share(two: list[float]) -> float:
    ours, twins = two[:2]
    return ours / twins if twins else float('inf')


def facts(folder: pathlib.Path) -> dict[str, str]:
    """What cost.py counted: a fact's name, then its counts."""
    script = pathlib.Path(__file__).parents[2] / 'tests' / 'cost' / 'cost.py'
    programs = [str(path) for path in sorted(folder.glob('null_*')) if path.is_file()]
    said = subprocess.run([sys.executable, str(script), *programs], capture_output=True, text=True).stdout
    found = {}
    for line in said.splitlines():
        if (fact := TAP.match(line)) and '# SKIP' not in line:
            name, _, counts = fact[2].partition('): ') if '): ' in fact[2] else fact[2].partition(': ')
            found[name] = counts
    return found


def of_cases(name: str, folder: pathlib.Path, programs: tuple[str, ...]) -> list[Bar]:
    """The tests that carry a bar's name: each compares two counts, so none may say that they differ."""
    bars = []
    for program in programs:
        path, kind = folder / program, 'libtorch' if program.startswith('torch') else 'toy'
        why = f'{program} is not built' if not path.exists() else f'{program} has no test of that name'
        failed = None
        if path.exists():
            said = subprocess.run(
                [str(path), f'{name}*', '--reporter', 'xml'],
                capture_output=True,
                text=True,
                env={'OMP_NUM_THREADS': '1'},
            ).stdout
            if (cases := re.search(r'<OverallResultsCases successes="(\d+)" failures="(\d+)"', said)) and int(
                cases[1]
            ) + int(cases[2]) > 0:
                failed = float(cases[2])
        bars.append(Bar(name, f'{kind}/counts-that-differ', failed, '<=', 0, why=why))
    return bars


def bars(folder: pathlib.Path) -> list[Bar]:
    known = facts(folder)
    made = []
    for name, of, pattern, value, sign, target in FACTS:
        said = next((counts for fact, counts in known.items() if re.search(pattern, fact)), None)
        made.append(
            Bar(
                name,
                of,
                None if said is None else value(said),
                sign,
                target,
                why='suite cost did not count it (valgrind, size)',
            )
        )
    for name, programs in (('P2', ('counts', 'torch_counts')), ('P8', ('counts',)), ('P9', ('counts',))):
        made += of_cases(name, folder, programs)
    return made
