"""docs/features.md is complete and true as far as names go; prints TAP, a line per kind of mistake.

Every feature S1 to S160 and every decision D1 to D34 has exactly one row; of what is numbered U there may be any
number. A row names a header and a test with a part of the test's name, or says why not. Every header, test file and
example that it names is there, and the name of a test is one of that file's."""

import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

PAGE = flags.ROOT / 'docs' / 'features.md'
FEATURES, DECISIONS = 160, 34
WITHOUT_TEST = ('not yet: ', 'not applicable: ')
OTHERWISE = 'decided otherwise: D'


def names_of(file: pathlib.Path) -> list[str]:
    """Of a source of Catch2 its test cases; of any other file its text."""
    text = flags.joined(file.read_text())
    return re.findall(r'TEST_CASE\("((?:[^"\\]|\\.)*)"', text) or [text]


def wrong_tests(cell: str):
    """`file` "part of a name", "part of another"; `next file` "part of a name"."""
    for file, quoted in re.findall(r'`([^`]+)`((?:[\s,]*"[^"]*")*)', cell):
        path = flags.ROOT / file
        if not file.startswith('tests/') or not path.is_file():
            yield f'there is no test {file}'
            continue
        named = re.findall(r'"([^"]*)"', quoted)
        if not named:
            yield f'{file} stands without the name of a test'
        yield from (f'{file} has no test "{name}"' for name in named if not any(name in one for one in names_of(path)))


def missing(cell: str, folder: pathlib.Path, kind: str):
    for path in re.findall(r'`([^`]+)`', cell):
        if not (folder / path).is_file():
            yield f'there is no {kind} {path}'


wrong = collections.defaultdict(list)
seen = collections.Counter()
for number, line in enumerate(PAGE.read_text().splitlines(), 1):
    cells = [cell.strip() for cell in line.split('|')[1:-1]]
    if not cells or not re.fullmatch(r'[SDU]\d+', cells[0]):
        continue
    row = f'features.md:{number}: {cells[0]}'
    seen[cells[0]] += 1
    if len(cells) != (4 if cells[0][0] == 'D' else 5):
        wrong['rows'].append(f'{row} has {len(cells)} columns')
        continue
    header, test, example = cells[2:] if cells[0][0] != 'D' else ('', cells[3], '')
    if header.startswith(WITHOUT_TEST) or (not header and test.startswith(WITHOUT_TEST)):
        if '`tests/' in test:
            wrong['rows'].append(f'{row} says why there is no test, and names one')
        continue
    if cells[0][0] != 'D' and not re.search(r'`[\w/]+\.hpp`', header) and not header.startswith(OTHERWISE):
        wrong['rows'].append(f'{row} names no header, and no reason')
    if '`' not in test:
        wrong['rows'].append(f'{row} names no test, and no reason')
    wrong['headers'] += [f'{row}: {what}' for what in missing(header, flags.INCLUDE / 'fulgurite', 'header')]
    wrong['tests'] += [f'{row}: {what}' for what in wrong_tests(test)]
    wrong['examples'] += [f'{row}: {what}' for what in missing(example, flags.ROOT, 'example')]


def not_once(letter: str, count: int) -> list[str]:
    wanted = [f'{letter}{i}' for i in range(1, count + 1)]
    stray = [key for key in seen if key[0] == letter and key not in wanted]
    return [f'{key} has {seen[key]} rows' for key in wanted if seen[key] != 1] + [
        f'{key} is none of them' for key in stray
    ]


flags.tap([('each feature has one row', not_once('S', FEATURES)),
           ('each decision has one row', not_once('D', DECISIONS)),
           ('a row names header and test, or says why not', wrong['rows']),
           ('headers are there', wrong['headers']),
           ('tests are there, with these names', wrong['tests']),
           ('examples are there', wrong['examples'])])
