"""Says how many of the specification's cases (cases.txt) are shown by a test, and which are still to come.

A case is shown by a test of this folder whose name begins with its id, or stands in elsewhere.tsv: `id, files, text in
the last` (a program that must not compile, a test of another suite), or `id, later, reason`. Exit status 1: a case is
nowhere, or twice, or what elsewhere.tsv names is not there."""

import collections
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import flags  # noqa: E402

ROOT = HERE.parent.parent


def rows(name: str) -> list[list[str]]:
    lines = (HERE / name).read_text().splitlines()
    return [line.split('\t') for line in lines if line and not line.startswith('#')]


cases = [row[0] for row in rows('cases.txt')]
found = collections.defaultdict(list)  # id -> where it is shown
later, wrong = {}, []
for source in sorted(HERE.glob('*.cpp')):
    for case in re.findall(r'^TEST_CASE\("(C\d+)\b', flags.joined(source.read_text()), re.M):
        found[case].append(source.name)
for row in rows('elsewhere.tsv'):
    if len(row) != 3:
        wrong.append(f'elsewhere.tsv: {row[0]} has {len(row)} columns, not 3')
        continue
    case, where, what = row
    found[case].append(where)
    if where == 'later':
        later[case] = what
        continue
    for file in where.split(', '):
        path = ROOT / file
        if not path.is_file():
            wrong.append(f'{case}: there is no {file}')
    if what != '-' and path.is_file() and what not in flags.joined(path.read_text()):
        wrong.append(f'{case}: {file} does not contain "{what}"')
wrong += [
    f'{case} is nowhere: name a test after it, or give it a line in elsewhere.tsv' for case in cases if not found[case]
]
wrong += [f'{case} is shown twice: {", ".join(where)}' for case, where in found.items() if len(where) > 1]
wrong += [f'{case} is no case of cases.txt' for case in found if case not in cases]

shown = sum(1 for case in cases if found[case] and case not in later)
print(*wrong, sep='\n', end='\n' if wrong else '')
print(
    f'conformance: {shown} of {len(cases)} cases'
    + (f'; later: {" ".join(case for case in cases if case in later)}' if later else '')
)
sys.exit(bool(wrong))
