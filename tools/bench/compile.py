"""What compiling costs (P10, P12): trainers with 1 to 64 callbacks and their twins, the lean header and the umbrella, the
digits program with the library (header-only; compiled flavour; that and a precompiled header) and without, the README's
first program with it, and behind the precompiled header without its trainer.

    compile.py BUILD [--quick] [--times N] [--commit HASH] [--only WORD]...

--only takes units whose names contain a word, as "mnist", and adds to what the last call of this commit has measured.
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
MOST_MS, MOST_GROWTH, NOISE = 12, 1.1, 0.02
# Of the time of the program by hand on torch/torch.h, which has no precompiled header; the lean header: of that one.
MOST_SHARE = {
    'mnist': {'g++': 1.35, 'clang++': 1.35},
    'mnist compiled': {'g++': 0.95, 'clang++': 0.95},
    'mnist compiled pch': {'g++': 0.8, 'clang++': 0.62},
}
MOST_LEAN, MOST_TEXT_KB = 1.0, 420
# A unit that begins with a precompiled header -> the unit that makes the header.
PRECOMPILED = {'mnist compiled pch': 'pch itself', 'mnist raw pch': 'raw pch itself',
               'first compiled pch': 'pch itself', 'first without a trainer pch': 'pch itself'}
OURS, RAW = 'examples/mnist.cpp', 'benchmarks/compile/mnist_raw.cpp'


def compilers() -> dict[str, str]:
    """What is here: the kind, and the command."""
    return {kind: name for kind, name in {'g++': 'g++', 'clang++': flags.clang()}.items() if shutil.which(name)}


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
        elif word.startswith('-D') and 'FULGURITE_COMPILED' not in word:  # the flavour is a row of its own
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
        made['trainer.hpp'] = ([*torch, source('lean.cpp', '#include <fulgurite/trainer.hpp>\n')], True)
        made['torch/torch.h'] = ([*torch, source('torch.cpp', '#include <torch/torch.h>\n')], True)
        made['mnist'] = ([*torch, str(ROOT / OURS)], True)
        compiled = [*torch, '-DFULGURITE_COMPILED=1']
        made['mnist compiled'] = ([*compiled, str(ROOT / OURS)], True)
        made['mnist raw'] = ([*torch, str(ROOT / RAW)], True)
        pch, header = scratch / 'pch.hpp', source('pch.hpp', '#include <fulgurite/fulgurite.hpp>\n')
        raw = scratch / 'raw.hpp'
        raw.write_text('#include <torch/torch.h>\n')
        made['pch itself'] = ([*compiled, '-x', 'c++-header', header], True)
        made['mnist compiled pch'] = ([*compiled, '-include', str(pch), str(ROOT / OURS)], True)
        made['raw pch itself'] = ([*torch, '-x', 'c++-header', str(raw)], True)
        made['mnist raw pch'] = ([*torch, '-include', str(raw), str(ROOT / RAW)], True)
        first = ROOT / 'examples/first.cpp'
        model = source('model.cpp', re.sub('.*make_trainer.*', '', first.read_text()))
        made['first compiled'] = ([*compiled, str(first)], True)
        made['first compiled pch'] = ([*compiled, '-include', str(pch), str(first)], True)
        made['first without a trainer pch'] = ([*compiled, '-include', str(pch), model], True)
    return made


def compiled(words: list[str]) -> tuple[float, float]:
    """Seconds of user and system, and megabytes at the peak."""
    process = os.spawnvp(os.P_NOWAIT, words[0], words)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        sys.exit(f'{" ".join(words)} ended with status {os.waitstatus_to_exitcode(status)}')
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def command(compiler: str, scratch: pathlib.Path, name: str, words: list[str]) -> list[str]:
    """Compiles a unit to an object; a precompiled header to where units that begin with it look for it."""
    out, more = scratch / 'unit.o', ['-c']
    if name.endswith('pch itself'):
        out = pathlib.Path(words[-1] + ('.pch' if 'clang' in compiler else '.gch'))
        more = ['-fpch-instantiate-templates'] if 'clang' in compiler else []
    return [compiler, '-std=c++20', '-O2', '-w', *more, '-o', str(out), *words]


def text_kb(file: pathlib.Path) -> float:
    """Kilobytes of code in an object."""
    said = subprocess.run(['size', '-A', str(file)], capture_output=True, text=True, check=True).stdout
    return round(sum(int(line.split()[1]) for line in said.splitlines() if line.startswith('.text')) / 1000, 1)


def measured(
    compiler: str, scratch: pathlib.Path, torch: list[str], times: int, quick: bool, only: list[str]
) -> dict[str, dict]:
    every = units(scratch, torch)
    chosen = {name for name in every if not only or any(word in name for word in only)}
    chosen |= {name for unit, name in PRECOMPILED.items() if unit in chosen}
    made = {name: unit for name, unit in every.items() if name in chosen}
    taken: dict[str, dict] = {name: {'seconds': [], 'memory_mb': 0.0} for name in made}
    for turn in range(times):
        for name, (words, heavy) in made.items():  # in turn, so that a busy moment meets them all
            if heavy and turn == times - 1 and times > 1:
                continue
            seconds, memory = compiled(command(compiler, scratch, name, words))
            taken[name]['seconds'].append(round(seconds, 3))
            taken[name]['memory_mb'] = max(taken[name]['memory_mb'], round(memory))
            if name.startswith('mnist'):
                taken[name]['text_kb'] = text_kb(scratch / 'unit.o')
    for name, (words, heavy) in made.items():
        skipped = quick and heavy or 'pch' in name
        said = '' if skipped else instantiations([compiler, '-std=c++20', '-fsyntax-only', *words], scratch)
        if 'text_kb' in taken[name]:
            said = f'{taken[name]["text_kb"]:.0f} KB of text {said}'
        taken[name]['instantiations'] = said
        print(
            f'{compiler:11} {name:27} {min(taken[name]["seconds"]):8.2f} s {taken[name]["memory_mb"]:7.0f} MB   {said}',
            flush=True,
        )
    return taken


def bars_of(kind: str, taken: dict[str, dict]) -> list[Bar]:
    def least(name: str) -> float:
        return min(taken[name]['seconds'])

    def count(n: int) -> int:
        return sum(map(int, re.findall(r'\d+', taken[f'trainer {n}']['instantiations'])))

    def share(name: str, of: str) -> float | None:
        return least(name) / least(of) if name in taken and of in taken else None

    made, missing = [], 'this was not measured, or there is no LibTorch'
    if all(f'{which} {n}' in taken for which in ('trainer', 'twin') for n in COUNTS):
        first, last = COUNTS[0], COUNTS[-1]
        ours, twins = (
            (least(f'{which} {last}') - least(f'{which} {first}')) / (last - first) for which in ('trainer', 'twin')
        )
        growth = (count(64) - count(32)) / 32 / ((count(32) - count(8)) / 24)
        made += [
            Bar('P10', f'{kind}/ms-a-callback', 1000 * ours, '<=', MOST_MS, NOISE),
            Bar('P10', f'{kind}/to-twin', ours / twins, '<=', 1, NOISE),
            Bar('P10', f'{kind}/growth-of-instantiations', growth, '<=', MOST_GROWTH),
        ]
    for name, most in MOST_SHARE.items():
        made.append(Bar('P12', f'{kind}/{name}', share(name, 'mnist raw'), '<=', most[kind], NOISE, missing))
    lean = share('trainer.hpp', 'torch/torch.h')
    made.append(Bar('P12', f'{kind}/lean-header', lean, '<=', MOST_LEAN, NOISE, missing))
    text = taken.get('mnist', {}).get('text_kb')
    return made + [Bar('P12', f'{kind}/text-kb', text, '<=', MOST_TEXT_KB, 0, missing)]


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
    options.add_argument('--only', nargs='+', default=[])
    options.add_argument('--compiler', choices=('g++', 'clang++'))
    given = options.parse_args()
    torch, out = libtorch(given.build), given.build / 'benchmarks' / 'compile.json'
    data = read(out) if given.only and out.exists() else {}
    if data.get('commit') != given.commit:
        data = {'commit': given.commit, 'compilers': {}}
    with tempfile.TemporaryDirectory() as folder:
        for kind, compiler in compilers().items():
            if given.compiler in (None, kind):
                times = 1 if given.quick else given.times
                taken = measured(compiler, pathlib.Path(folder), torch, times, given.quick, given.only)
                data['compilers'].setdefault(kind, {}).update(taken)
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
