"""Every .cpp file of this folder is a program that must not compile, and what the compiler must say first.

A case is called after its identifier without "fulgurite.", with -variant where there are several: policy.fp16_needs_gpu-distributed.cpp.
Its first line gives the identifier and the sentence; under `#ifdef LEGAL` stands the program corrected, which must compile:

    // refused: [fulgurite.policy.fp16_needs_gpu] Fp16Mixed scales the loss, which needs a GPU: use Bf16Mixed, or a CUDA device
    // lines: 12                                         (optional: fewer lines of diagnostics than the 15 that all may have)

    refusals.py check BUILD            compiles each case both ways with the compiler and flags of BUILD; prints TAP
    refusals.py show BUILD [CASE...]   prints what the compiler says, for reading
    refusals.py identifiers            compares the identifiers in include/ with those that tests provoke; prints TAP
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MOST_LINES = 15
IDENTIFIER = r'fulgurite(?:\.[a-z0-9_]+){2,}'
FIRST_LINE = re.compile(rf'// refused: (\[({IDENTIFIER})\] \S.*)$')
CONTROL = 'bare_one.cpp'  # the unit of tests/layout whose flags the cases take


def cases() -> list[pathlib.Path]:
    return sorted(HERE.glob('*.cpp'))


def check(how, case: pathlib.Path) -> tuple[str, list[str]]:
    lines = case.read_text().splitlines()
    head = FIRST_LINE.match(lines[0]) if lines else None
    if not head:
        return case.stem, ['the first line is not "// refused: [fulgurite.area.rule] sentence"']
    sentence, identifier = head[1].rstrip(), head[2]
    asked = [int(found[1]) for line in lines[:5] if (found := re.match(r'// lines: (\d+)', line))]
    limit = min([MOST_LINES] + asked)
    complaints = []
    if case.stem.split('-')[0] != identifier.removeprefix('fulgurite.'):
        complaints.append(f'the file of {identifier} is called {identifier.removeprefix("fulgurite.")}[-variant].cpp')
    compiles, said = flags.compile_only(how, ['-DLEGAL', str(case)])
    if not compiles:
        complaints.append('the legal twin (-DLEGAL) does not compile:\n' + '\n'.join(said.splitlines()[:20]))
    compiles, said = flags.compile_only(how, [str(case)])
    errors = [line for line in said.splitlines() if 'error:' in line]
    if compiles:
        complaints.append('it compiles: the guard is gone')
    elif not errors or sentence not in errors[0]:
        complaints.append(f'the first error is not\n  {sentence}\nbut\n  ' + (errors[0] if errors else said))
    if len(said.splitlines()) > limit:
        complaints.append(f'{len(said.splitlines())} lines of diagnostics, {limit} at most:\n' + '\n'.join(said.splitlines()[:40]))
    return case.stem, complaints


def show(how, case: pathlib.Path) -> str:
    _, said = flags.compile_only(how, [str(case)])
    lines = said.splitlines()
    first = next((number for number, line in enumerate(lines, 1) if 'error:' in line), 0)
    return f'\n--- {case.stem}: {len(lines)} lines, the first error at line {first}\n' + '\n'.join(lines[:MOST_LINES + 5])


def literals(header: pathlib.Path) -> list[str]:
    """The string literals of a header; comments are passed over."""
    tokens = re.compile(r'//[^\n]*|/\*.*?\*/|"((?:[^"\\\n]|\\.)*)"', re.S)
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
    tests = '\n'.join(path.read_text(errors='replace') for path in (flags.ROOT / 'tests').rglob('*.cpp'))
    tested = set(re.findall(IDENTIFIER, tests))

    def where(header: pathlib.Path) -> str:
        return str(header.relative_to(flags.INCLUDE))

    return [
        ('every refusal of include/ has a program in tests/nocompile',
         [f'{name} ({where(header)}) has none' for name, header in sorted(compile_time.items()) if name not in refused]),
        ('every exception of include/ is provoked by a test',
         [f'{name} ({where(header)}) occurs in no .cpp file of tests/' for name, header in sorted(run_time.items()) if name not in tested]),
        ('every program in tests/nocompile is about a refusal of include/',
         [f'{name} ({case}) occurs in no string of include/' for name, case in sorted(refused.items()) if name not in compile_time]),
    ]


def main() -> None:
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == 'identifiers':
        flags.tap(identifiers())
    how = flags.command(pathlib.Path(arguments[0]), CONTROL)
    if how is None:
        sys.exit(f'{arguments[0]} does not compile {CONTROL}: configure it with -Dtests=enabled')
    if verb == 'check':
        flags.tap(flags.each(lambda case: check(how, case), cases()))
    chosen = [case for case in cases() if not arguments[1:] or any(name in case.stem for name in arguments[1:])]
    print(*flags.each(lambda case: show(how, case), chosen) or ['no such program'], sep='\n')


main()
