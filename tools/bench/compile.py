"""What compiling costs (P10, P12): trainers with 1 to 64 callbacks and their twins, the umbrella header, the MNIST
program with the library and without.

    compile.py BUILD [--quick] [--times N] [--commit HASH]

Seconds are user and system time of a whole compilation to an object at -O2, the least of N in turn (of N - 1 where
LibTorch is included); memory is the peak of the compiler. Instantiations are clang's, of classes and functions, from
-ftime-trace, and g++'s, of types and declarations, from -fstats: each is compared with itself only."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import generated
from bars import Bar
from samples import read, write

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'tools'), str(ROOT / 'tests')]
import flags  # noqa: E402
from rule_cost import instantiations  # noqa: E402

COUNTS = (1, 8, 16, 32, 64)
MOST_MS, MOST_GROWTH, NOISE = 13, 1.1, 0.02
MOST_SHARE = {'g++': 0.8, 'clang++': 0.9}
OURS, RAW = 'examples/mnist.cpp', 'benchmarks/compile/mnist_raw.cpp'


def compilers() -> dict[str, str]:
    """What is here: the kind, and the command."""
    clangs = [name for name in ('clang++-19', 'clang++-20', 'clang++-21', 'clang++') if shutil.which(name)]
    return ({'g++': 'g++'} if shutil.which('g++') else {}) | ({'clang++': clangs[0]} if clangs else {})


def libtorch(build: pathlib.Path) -> list[str]:
    """How this build finds its headers."""
    found = flags.command(build, OURS)
    if found is None:
        return []
    words, folder = found
    kept, rest = [], iter(words)
    for word in rest:
        if word in ('-I', '-isystem'):
            word += next(rest)
        if place := re.match(r'(-I|-isystem)(.+)', word):
            kept += [place[1], str((folder / place[2]).resolve())]
        elif word.startswith('-D'):
            kept.append(word)
    return kept


def units(scratch: pathlib.Path, torch: list[str]) -> dict[str, tuple[list[str], bool]]:
    """Each unit's words after the compiler and -std, and whether it includes LibTorch."""
    def source(name: str, text: str) -> str:
        (scratch / name).write_text(text)
        return str(scratch / name)

    toy = [f'-I{ROOT / folder}' for folder in ('include', 'tests/toy', 'benchmarks/twin')]
    made = {}
    for n in COUNTS:
        made[f'trainer {n}'] = ([*toy, source(f'trainer_{n}.cpp', generated.ours(n))], False)
        made[f'twin {n}'] = ([*toy, source(f'twin_{n}.cpp', generated.twins(n))], False)
    if torch:
        made['fulgurite.hpp'] = ([*torch, source('umbrella.cpp', '#include <fulgurite/fulgurite.hpp>\n')], True)
        made['torch/torch.h'] = ([*torch, source('torch.cpp', '#include <torch/torch.h>\n')], True)
        made['mnist'] = ([*torch, str(ROOT / OURS)], True)
        made['mnist raw'] = ([*torch, str(ROOT / RAW)], True)
    return made


def compiled(words: list[str]) -> tuple[float, float]:
    """Seconds of user and system, and megabytes at the peak."""
    process = os.spawnvp(os.P_NOWAIT, words[0], words)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        sys.exit(f'{" ".join(words)} ended with status {os.waitstatus_to_exitcode(status)}')
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measured(compiler: str, scratch: pathlib.Path, torch: list[str], times: int, quick: bool) -> dict[str, dict]:
    made = units(scratch, torch)
    taken: dict[str, dict] = {name: {'seconds': [], 'memory_mb': 0.0} for name in made}
    for turn in range(times):
        for name, (words, heavy) in made.items():  # in turn, so that a busy moment meets them all
            if heavy and turn == times - 1 and times > 1:
                continue
            seconds, memory = compiled([compiler, '-std=c++20', '-O2', '-c', '-o', str(scratch / 'unit.o'), *words])
            taken[name]['seconds'].append(round(seconds, 3))
            taken[name]['memory_mb'] = max(taken[name]['memory_mb'], round(memory))
    for name, (words, heavy) in made.items():
        said = '' if quick and heavy else instantiations([compiler, '-std=c++20', '-fsyntax-only', *words], scratch)
        taken[name]['instantiations'] = said
        print(
            f'{compiler:11} {name:14} {min(taken[name]["seconds"]):8.2f} s {taken[name]["memory_mb"]:7.0f} MB   {said}',
            flush=True,
        )
    return taken


def bars_of(kind: str, taken: dict[str, dict]) -> list[Bar]:
    def least(name: str) -> float:
        return min(taken[name]['seconds'])

    def count(n: int) -> int:
        return sum(map(int, re.findall(r'\d+', taken[f'trainer {n}']['instantiations'])))

    first, last = COUNTS[0], COUNTS[-1]
    ours, twins = (
        (least(f'{which} {last}') - least(f'{which} {first}')) / (last - first) for which in ('trainer', 'twin')
    )
    growth = (count(64) - count(32)) / 32 / ((count(32) - count(8)) / 24)
    made = [
        Bar('P10', f'{kind}/ms-a-callback', 1000 * ours, '<=', MOST_MS, NOISE),
        Bar('P10', f'{kind}/to-twin', ours / twins, '<=', 1, NOISE),
        Bar('P10', f'{kind}/growth-of-instantiations', growth, '<=', MOST_GROWTH),
    ]
    share = least('mnist') / least('mnist raw') if 'mnist' in taken else None
    return made + [Bar('P12', f'{kind}/mnist', share, '<=', MOST_SHARE[kind], NOISE, 'there is no LibTorch')]


def bars(file: pathlib.Path, commit: str) -> list[Bar]:
    """Those of the last `tools/dev bench compile`, if it was of this commit."""
    data = read(file) if file.exists() else {}
    if data.get('commit') != commit:
        why = 'tools/dev bench compile has not run on this commit'
        return [Bar(name, 'compile-time', None, why=why) for name in ('P10', 'P12')]
    return [bar for kind, taken in data['compilers'].items() for bar in bars_of(kind, taken)]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('build', type=pathlib.Path)
    options.add_argument('--quick', action='store_true', help='once, and instantiations of the trainers only')
    options.add_argument('--times', type=int, default=3)
    options.add_argument('--commit', default='unknown')
    given = options.parse_args()
    torch, data = libtorch(given.build), {'commit': given.commit, 'compilers': {}}
    with tempfile.TemporaryDirectory() as folder:
        for kind, compiler in compilers().items():
            data['compilers'][kind] = measured(
                compiler, pathlib.Path(folder), torch, 1 if given.quick else given.times, given.quick
            )
    out = given.build / 'benchmarks' / 'compile.json'
    out.parent.mkdir(parents=True, exist_ok=True)
    write(out, data)
    print(f'\nload {os.getloadavg()[0]:.1f}: seconds are of a compiler, but they grow where others work beside it')
    judged = bars(out, given.commit)
    for bar in judged:
        print(bar.line())
    print(f'\nEvery sample: {out}')
    return 1 if any(bar.fails() for bar in judged) else 0


if __name__ == '__main__':
    sys.exit(main())
