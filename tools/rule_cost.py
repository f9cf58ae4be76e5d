"""What the refusals cost a translation unit: a trainer with three callbacks, a fit and a validation, compiled with all
rules and with none.

    tools/rule_cost.py [--compiler COMPILER]... [--times N] [--against INCLUDE]

There is no switch that turns the rules off, so a scratch copy of include/ has every verdict answer "fine" and lacks the
sentences and the near misses. Prints user seconds (the best of N, 7 by default) and counts of instantiations: clang's,
of classes and functions, from -ftime-trace; g++'s, of everything, from -fstats. With --against, the rules of another
include folder stand beside them."""

import argparse
import collections
import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGET = 0.3  # seconds a translation unit
PROGRAM = '''#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  void validation_step(double) {}
  void on_train_epoch_end(auto&) {}
};
struct Counts {
  using Stateless = ByChoice;
  long batches = 0;
  void on_train_batch_end() { ++batches; }
};
struct Watcher {
  using Stateless = ByChoice;
  long batches = 0;
  void on_train_batch_end(auto&, auto&, auto&) { ++batches; }
  void on_validation_end(auto&) {}
};
struct Starts {
  using Stateless = ByChoice;
  long fits = 0;
  void on_fit_start() { ++fits; }
  void on_train_epoch_start(auto&) {}
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Counts{}, Watcher{}, Starts{});
  trainer.fit(net, toy::batches(4), toy::batches(2));
  trainer.validate(net, toy::batches(2));
}
'''


def body(text: str, start: int) -> int:
    """Where the block ends that opens at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {'{': 1, '}': -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError('a block without an end')


# How a function that judges begins, and what it answers where nothing is wrong.
VERDICTS = (
    (r'consteval HookVerdict \w+\([^;{]*\) \{', ' return {}; '),
    (r'FULGURITE_JUDGE\(\w+\) \{', ' return Fine{}; '),
    (r'consteval auto (?:\w*judge\w*|trainer|parts|fit|evaluates|about|first\w*)\([^;{]*\) \{', ' return Fine{}; '),
)


def without_rules(include: pathlib.Path) -> None:
    """Every verdict is fine, and what only a bad one needs is not there."""
    folder = include / 'fulgurite'
    verdicts = sentences = 0
    for path in [*folder.glob('concept/*.hpp'), *folder.glob('diagnose/*.hpp')]:
        text = path.read_text()
        for verdict, fine in VERDICTS:
            at = 0
            while found := re.compile(verdict).search(text, at):
                text = text[:found.end()] + fine + text[body(text, found.end() - 1):]
                at = found.end()
                verdicts += 1
        path.write_text(text)
    for path in [folder / 'diagnose' / f'{name}_refusals.hpp' for name in ('hook', 'near_miss')]:
        text = path.read_text()
        sentences += len(re.findall(r'^FULGURITE_|\) FULGURITE_', text, flags=re.M))  # several in a line
        path.write_text(re.sub(r'^FULGURITE_\w+\(.*\)\n', '', text, flags=re.M))
    names = folder / 'hook' / 'near_miss_names.hpp'  # one of each table is left
    text, tables = re.subn(
        r'(#define \w+\(ROW\)) \\\n +(ROW\([^)]*\)).*\\\n(?:.*\\\n)*.*\n', r'\1 \2\n', names.read_text()
    )
    names.write_text(text)
    if verdicts < 20 or sentences < 100 or tables != 3:
        sys.exit(
            f'{verdicts} verdicts, {sentences} sentences and {tables} tables were found: the headers are written otherwise than this expects'
        )
    print(f'{verdicts} verdicts answer "fine", {sentences} sentences are left out')


def command(compiler: str, include: pathlib.Path, source: pathlib.Path) -> list[str]:
    return [compiler, '-std=c++20', '-fsyntax-only', f'-I{include}', f'-I{ROOT / "tests" / "toy"}', str(source)]


def seconds(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(words, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def instantiations(words: list[str], scratch: pathlib.Path) -> str:
    if 'clang' in words[0]:
        trace = scratch / 'trace.json'
        whole = ['-c' if word == '-fsyntax-only' else word for word in words]
        subprocess.run(
            [*whole, '-o', str(scratch / 'unit.o'), f'-ftime-trace={trace}', '-ftime-trace-granularity=0'], check=True
        )
        events = collections.Counter(event['name'] for event in json.loads(trace.read_text())['traceEvents'])
        return f'{events["InstantiateClass"]} classes, {events["InstantiateFunction"]} functions'
    said = subprocess.run([*words, '-fstats'], check=True, capture_output=True, text=True).stderr
    count = dict(re.findall(r'(decl|type)_specializations: size \d+, (\d+) elements', said))
    return f'{count["type"]} types, {count["decl"]} declarations'


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--compiler', action='append')
    options.add_argument('--times', type=int, default=7)
    options.add_argument('--against', type=pathlib.Path)
    given = options.parse_args()
    compilers = given.compiler or ['g++', 'clang++-19']
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        source = scratch / 'unit.cpp'
        source.write_text(PROGRAM)
        for name in ('all', 'none'):  # copies, so that nobody's edits come between
            shutil.copytree(ROOT / 'include', scratch / name)
        without_rules(scratch / 'none')
        variants = {'no rules': scratch / 'none', 'all rules': scratch / 'all'}
        if given.against:
            variants[f'in {given.against.name}'] = given.against
        for compiler in compilers:
            words = {name: command(compiler, include, source) for name, include in variants.items()}
            best = dict.fromkeys(words, float('inf'))
            for _ in range(given.times):  # in turn, so that a busy moment meets them all
                best = {name: min(best[name], seconds(each)) for name, each in words.items()}
            for name, each in words.items():
                print(f'{compiler:12}{name:12}{best[name]:7.2f} s   {instantiations(each, scratch)}')
            cost = best['all rules'] - best['no rules']
            print(
                f'{compiler:12}{"difference":12}{cost:7.2f} s   {"within" if cost <= BUDGET else "above"} {BUDGET} s',
                flush=True,
            )


if __name__ == '__main__':
    main()
