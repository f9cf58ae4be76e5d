"""Every .cpp file of this folder is a program that must not compile, and what the compiler must say first.

A case is called after its identifier without "fulgurite.", with -variant where there are several:
policy.fp16_needs_gpu-distributed.cpp. Its first line gives the identifier and the sentence; under `#ifdef LEGAL` stands
the program corrected, which must compile:

    // refused: [fulgurite.callback.inert] this callback has no hook, so it would never be called: ...
    // lines: 12                                         (optional: fewer lines than the 15 that all may have)
    // needs: LibTorch                                   (optional: with its headers; left out where LibTorch is not)
    // g++: [with fulgurite_...                          (optional: g++ prints this, no sentence of a deleted function)
    // flags: -ffast-math                                (optional: what the wrong program alone is compiled with)

Nearly all of them begin with the toy and the trainer, or with one of a few other headers. `check` compiles what they
begin with once, into precompiled headers in BUILD, and the programs that begin alike several at a time: the corrected
ones, and the wrong ones. Only where one does not do there what it should is it compiled alone, and that decides.

    refusals.py check BUILD [CASE...]  compiles each case both ways with the compiler and flags of BUILD; prints TAP
    refusals.py show BUILD [CASE...]   prints what the compiler says, for reading
    refusals.py identifiers            compares the identifiers in include/ with those that tests provoke; prints TAP
"""

import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import batches  # noqa: E402
import flags  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MOST_LINES = 15
IDENTIFIER = r'fulgurite(?:\.[a-z0-9_]+){2,}'
FIRST_LINE = re.compile(rf'// refused: (\[({IDENTIFIER})\] \S.*)$')
CONTROL = 'bare_one.cpp'  # the unit of tests/layout whose flags the cases take
CONTROL_WITH_LIBTORCH = 'full_one.cpp'  # and that of the few that need LibTorch


def first_line(case: pathlib.Path) -> str:
    return case.read_text().split('\n', 1)[0]


def cases() -> list[pathlib.Path]:
    return sorted(HERE.glob('*.cpp'))


def commands(build: pathlib.Path):
    """How a case is compiled: a function of it; None where it needs LibTorch and the build has none."""
    plain, with_libtorch = flags.command(build, CONTROL), flags.command(build, CONTROL_WITH_LIBTORCH)
    if plain is None:
        sys.exit(f'{build} does not compile {CONTROL}: configure it with -Dtests=enabled')

    def how(case: pathlib.Path):
        needs = '// needs: LibTorch' in case.read_text().splitlines()[:5]
        return as_with_the_library(with_libtorch if needs else plain)

    return how


def as_with_the_library(how: tuple[list[str], pathlib.Path] | None):
    """How a unit is compiled that links the library, as README recommends. With the bodies in a precompiled header g++
    would instantiate what they use in every unit that begins with it."""
    return how and (how[0] + ['-DFULGURITE_COMPILED'], how[1])


def wrong(case: pathlib.Path) -> list[str]:
    """The arguments that compile the wrong program of a case."""
    asked = [
        found[1].split() for line in case.read_text().splitlines()[:5] if (found := re.match(r'// flags: (.+)', line))
    ]
    return [str(case)] + [flag for flags in asked for flag in flags]


# What programs begin with, precompiled: a program takes the first of which it has all lines; one that needs LibTorch
# begins with it. clang mentions the names of these files, one line more than a person sees.
BEGINNINGS = {
    'common': ['#include <toy.hpp>', '#include <fulgurite/loop/trainer.hpp>'],
    'loader': ['#include <fulgurite/data/loader.hpp>'],
    'shapes': ['#include <fulgurite/torch/chain/shapes.hpp>'],
    'libtorch': ['#include <torch/torch.h>'],
}
MENTIONED = re.compile(rf'In file included from .*/tests/nocompile/({"|".join(BEGINNINGS)})\.hpp:')


def beginning(case: pathlib.Path) -> str | None:
    lines = case.read_text().splitlines()
    if '// needs: LibTorch' in lines[:5]:
        return 'libtorch'
    if any(line.startswith('// flags: ') for line in lines[:5]):
        return None
    return next((name for name, all_of in BEGINNINGS.items() if set(all_of) <= set(lines)), None)


def precompiled(build: pathlib.Path, how, chosen: list[pathlib.Path]):
    """A function of a case: the arguments that make the compiler begin with a precompiled header; none where the case
    begins otherwise."""
    folder = build.resolve() / 'tests' / 'nocompile'
    folder.mkdir(parents=True, exist_ok=True)
    examples = {name: case for case in chosen if (name := beginning(case))}

    def make(name: str) -> list[str]:
        words, where = how(examples[name])
        header = folder / f'{name}.hpp'
        header.write_text('\n'.join(BEGINNINGS[name]) + '\n')
        clang = b'clang' in subprocess.run([words[0], '--version'], capture_output=True).stdout
        made = header.with_suffix('.hpp.pch' if clang else '.hpp.gch')
        # What headers use of the standard library is then instantiated once, and not in each of the programs.
        once = ['-fpch-instantiate-templates'] if clang else []
        run = subprocess.run(
            words + once + ['-x', 'c++-header', str(header), '-o', str(made)], cwd=where, capture_output=True, text=True
        )
        if run.returncode != 0:
            sys.exit(f'{BEGINNINGS[name]} do not compile:\n{run.stderr}')
        return ['-include-pch', str(made)] if clang else ['-I', str(folder), '-include', header.name]

    use = dict(zip(examples, flags.each(make, examples)))
    return lambda case: use.get(beginning(case), [])


TOGETHER = 40  # programs in a unit, at most


def known(how, begin, chosen: list[pathlib.Path], holds) -> set[pathlib.Path]:
    """The cases of which `holds` says, of a unit of several, that they are as they should be; where it says nothing of
    a unit, each half of it is asked. Neighbours by name, which are much alike, are in different units."""
    alike = collections.defaultdict(list)
    for case in chosen:
        text = case.read_text()
        alone = len(wrong(case)) > 1 or batches.ALONE.search(re.sub('#ifn?def LEGAL', '', text))
        if FIRST_LINE.match(first_line(case)) and not alone:
            alike[beginning(case) or tuple(batches.INCLUDE.findall(text))].append(case)

    def held(group: list[pathlib.Path]) -> list[pathlib.Path]:
        if len(group) < 2:
            return []
        # main inside a namespace is a function like any other, which may not leave out its return.
        good = holds(group, how(group[0]), begin(group[0]) + ['-I', str(HERE), '-Wno-return-type'])
        return held(group[::2]) + held(group[1::2]) if good is None else good

    groups = []
    for those in alike.values():
        units = -(-len(those) // TOGETHER)
        groups += [those[first::units] for first in range(units)]
    return {case for good in flags.each(held, groups) for case in good}


def legal_together(group: list[pathlib.Path], how, words: list[str]) -> list[pathlib.Path] | None:
    """All of them, where their corrected programs compile as one unit."""
    return group if flags.compile_only(how, words + ['-DLEGAL'], batches.unit(group))[0] else None


UNIT = '<stdin>'  # what compilers call the unit of several
# What stands in front of the line of an error and belongs to it: by whom the file is included, where the function is.
BEFORE = re.compile(
    r'In file included from |\s+from |\S+: (In|At) |\S+:\s+(recursively )?required |\S+:\s+in .constexpr'
)


def refused_together(group: list[pathlib.Path], how, words: list[str]) -> list[pathlib.Path] | None:
    """Those of which the compiler says in one unit what it should say of each alone.

    Behind each stands an error of the unit itself, by which each error is known to be of the program before it; and
    compilers leave out lines of the source that they have just printed, and so print all of them again. What comes
    behind the last of these, as the errors of functions that g++ instantiates at the end, is of the program that it
    names, by a place or by its sentence. Nothing is said of programs that are named together, and of none where an
    error names none."""
    clang = any('clang' in word for word in how[0])
    no_limit = ['-ferror-limit=0'] if clang else []
    text = re.sub(r'^\}$', '} static_assert(false);', batches.unit(group), flags=re.M)
    _, said = flags.compile_only(how, words + no_limit, text)
    lines = [line for line in said.splitlines() if not re.match(r'\d+ (error|warning)s? .*generated', line)]
    starts = []
    for number, line in enumerate(lines):
        if re.search(r': (fatal )?(error|warning): ', line):
            while number > 0 and BEFORE.match(lines[number - 1]):
                number -= 1
            starts.append(number)
    of_case, late, behind = {case: [] for case in group}, set(), 0
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        part = '\n'.join(lines[start:end])
        if part.startswith(UNIT):
            behind += 1
            continue
        named = {case for case in group if f'/{case.name}:' in part or f'{batches.namespace(case)}::' in part}
        if behind < len(group):
            of_case[group[behind]] += lines[start:end]
            late |= named - {group[behind]}
        else:
            named = named or {case for case in group if f'[{FIRST_LINE.match(first_line(case))[2]}]' in part}
            if not named:
                return None
            if len(named) == 1:
                of_case[named.pop()] += lines[start:end]
            else:
                late |= named

    # More lines than there are: clang counts its errors in the last one, and g++ says once only by whom a header is
    # included, which are three lines as a rule. One error that begins by saying it has all of its lines.
    def more(told: list[str]) -> str:
        errors = sum('error:' in line for line in told)
        whole = errors == 1 and told[0].startswith('In file included from')
        return '\n' * (1 if clang else 0 if whole else 6 * errors)

    return [case for case, told in of_case.items()
            if told and case not in late and not amiss(how, case, '\n'.join(told) + more(told) + '.')]


def amiss(how, case: pathlib.Path, said: str) -> list[str]:
    """What is wrong with what the compiler said of a wrong program."""
    lines = case.read_text().splitlines()
    sentence = FIRST_LINE.match(lines[0])[1].rstrip()
    asked = [int(found[1]) for line in lines[:5] if (found := re.match(r'// lines: (\d+)', line))]
    limit = min([MOST_LINES] + asked)
    gxx = [found[1] for line in lines[:5] if (found := re.match(r'// g\+\+: (.+)', line))]
    said_instead = [] if any('clang' in word for word in how[0]) else gxx
    complaints = []
    errors = [line for line in said.splitlines() if 'error:' in line]
    if not errors or not any(text in errors[0] for text in [sentence, *said_instead]):
        complaints.append(f'the first error is not\n  {sentence}\nbut\n  ' + (errors[0] if errors else said))
    shown = [line for line in said.splitlines() if not MENTIONED.match(line)]
    if len(shown) > limit:
        complaints.append(f'{len(shown)} lines of diagnostics, {limit} at most:\n' + '\n'.join(said.splitlines()[:40]))
    return complaints


def check(how, begin: list[str], case: pathlib.Path, legal: bool, refused: bool) -> tuple[str, list[str]]:
    lines = case.read_text().splitlines()
    head = FIRST_LINE.match(lines[0]) if lines else None
    if not head:
        return case.stem, ['the first line is not "// refused: [fulgurite.area.rule] sentence"']
    identifier, complaints = head[2], []
    if case.stem.split('-')[0] != identifier.removeprefix('fulgurite.'):
        complaints.append(f'the file of {identifier} is called {identifier.removeprefix("fulgurite.")}[-variant].cpp')
    compiles, said = (True, '') if legal else flags.compile_only(how, begin + ['-DLEGAL', str(case)])
    if not compiles:
        complaints.append('the legal twin (-DLEGAL) does not compile:\n' + '\n'.join(said.splitlines()[:20]))
    if not refused:
        compiles, said = flags.compile_only(how, begin + wrong(case))
        complaints += ['it compiles: the guard is gone'] if compiles else amiss(how, case, said)
    return case.stem, complaints


def show(how, case: pathlib.Path) -> str:
    _, said = flags.compile_only(how, wrong(case))
    lines = said.splitlines()
    first = next((number for number, line in enumerate(lines, 1) if 'error:' in line), 0)
    return f'\n--- {case.stem}: {len(lines)} lines, the first error at line {first}\n' + '\n'.join(
        lines[: MOST_LINES + 5]
    )


def literals(header: pathlib.Path) -> list[str]:
    """The string literals of a header, but for those in comments and in an #error, which is about a build."""
    tokens = re.compile(r'#error(?:\\\n|[^\n])*|//[^\n]*|/\*.*?\*/|"((?:[^"\\\n]|\\.)*)"', re.S)
    return [found[1] for found in tokens.finditer(header.read_text()) if found[1] is not None]


def identifiers() -> list[tuple[str, list[str]]]:
    compile_time, run_time = {}, {}  # identifier -> the header it was seen in
    for header in flags.headers():
        for text in literals(header):
            if told := re.match(rf'warning: \[({IDENTIFIER})\]', text):
                run_time.setdefault(told[1], header)
                continue
            for found in re.findall(rf'\[({IDENTIFIER})\]', text):
                compile_time.setdefault(found, header)
            if re.fullmatch(IDENTIFIER, text):
                run_time.setdefault(text, header)
    refused = {}  # identifier -> a case
    for case in cases():
        if head := FIRST_LINE.match(case.read_text().split('\n', 1)[0]):
            refused.setdefault(head[2], case.name)
    # What several processes say is read by the script that starts them.
    sources = [*(flags.ROOT / 'tests').rglob('*.[ch]pp'), *(flags.ROOT / 'tests' / 'distributed').glob('*.py')]
    tests = '\n'.join(path.read_text(errors='replace') for path in sources)
    tested = set(re.findall(IDENTIFIER, tests))

    def where(header: pathlib.Path) -> str:
        return str(header.relative_to(flags.INCLUDE))

    return [
        (
            'every refusal of include/ has a program in tests/nocompile',
            [
                f'{name} ({where(header)}) has none'
                for name, header in sorted(compile_time.items())
                if name not in refused
            ],
        ),
        (
            'every exception of include/ is provoked by a test',
            [
                f'{name} ({where(header)}) occurs in no test'
                for name, header in sorted(run_time.items())
                if name not in tested
            ],
        ),
        (
            'every program in tests/nocompile is about a refusal of include/',
            [
                f'{name} ({case}) occurs in no string of include/'
                for name, case in sorted(refused.items())
                if name not in compile_time
            ],
        ),
    ]


def main() -> None:
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == 'identifiers':
        flags.tap(identifiers())
    how = commands(pathlib.Path(arguments[0]))
    chosen = [
        case
        for case in cases()
        if how(case) and (not arguments[1:] or any(name in case.stem for name in arguments[1:]))
    ]
    if verb == 'check':
        begin = precompiled(pathlib.Path(arguments[0]), how, chosen)
        legal = known(how, begin, chosen, legal_together)
        refused = known(how, begin, chosen, refused_together)
        flags.tap(flags.each(lambda case: check(how(case), begin(case), case, case in legal, case in refused), chosen))
    print(*flags.each(lambda case: show(how(case), case), chosen) or ['no such program'], sep='\n')


main()
