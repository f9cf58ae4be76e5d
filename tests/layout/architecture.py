"""docs/architecture.md against the headers: the picture of the rooms is what their includes make, and each chain names
functions where they stand, in files that lead to one another; prints TAP.

    architecture.py [BUILD]    the checks
    architecture.py write      writes the picture into the page"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

PAGE = flags.ROOT / 'docs' / 'architecture.md'
ROOM = flags.INCLUDE / 'fulgurite'
# The most files of each chain. A change may make one shorter.
MOST = {'What happens to a batch': 8, 'A validation': 4, "An epoch's end": 4, 'A checkpoint': 8, 'A resume': 5}
PICTURE = re.compile(r'```mermaid\n.*?```', re.S)


def arrows() -> dict[str, set[str]]:
    """The rooms that each room includes, but for those that it reaches through another one."""
    direct = {path.name: flags.rooms_included(path.name) for path in ROOM.iterdir() if path.is_dir()}
    # `loop` and `diagnose` include each other: the trainer is judged before it is made. One arrow says it.
    direct['loop'].discard('diagnose')

    def below(room, seen):
        for target in direct[room] - seen:
            seen.add(target)
            below(target, seen)
        return seen

    return {room: {target for target in targets
                   if not any(target in below(other, set()) for other in targets - {target})}
            for room, targets in direct.items()}


def picture() -> str:
    lines = [f'  {room} --> {target}' for room, targets in sorted(arrows().items()) for target in sorted(targets)]
    return '\n'.join(['```mermaid', 'graph TD', *lines, '```'])


def chains() -> dict[str, list[tuple[str, list[str]]]]:
    """The rows of the tables: heading -> files, each with its functions."""
    found, heading = {}, ''
    for line in PAGE.read_text().splitlines():
        if line.startswith('## '):
            heading = line[3:]
        elif row := re.match(r'\| `([\w/]+\.hpp)` \| ([^|]*) \|', line):
            found.setdefault(heading, []).append((row[1], re.findall(r'`(?:\w+::)?(\w+)`', row[2])))
    return found


def drawn():
    if picture() not in PAGE.read_text():
        yield 'the picture is not that of the includes: python3 tests/layout/architecture.py write'


def short():
    for heading in MOST.keys() - chains().keys():
        yield f'there is no table below "{heading}"'
    for heading, rows in chains().items():
        if len(rows) > MOST.get(heading, 0):
            yield f'{heading}: {len(rows)} files, at most {MOST.get(heading, 0)}'


def true():
    for heading, rows in chains().items():
        for file, functions in rows:
            header = ROOM / file
            if not header.exists():
                yield f'{heading}: {file} is not there'
                continue
            text = ''.join(path.read_text() for path in (header, header.with_suffix('.ipp')) if path.exists())
            code = re.sub(r'//[^\n]*', '', text)
            if not functions:
                yield f'{heading}: no function of {file} is named'
            for function in functions:
                if not re.search(rf'(?:[\w>&*\])]|::)\s+(?:\w+::)?{function}\(', code):
                    yield f'{heading}: {function} does not stand in {file}'


def connected():
    """The first file includes the others, itself or through others; files of `torch` and `checkpoint` come in with the
    strategy."""
    for heading, rows in chains().items():
        reached = set(flags.reached(ROOM / rows[0][0]))
        for file, _ in rows[1:]:
            if file.split('/')[0] not in ('torch', 'checkpoint') and f'fulgurite/{file}' not in reached:
                yield f'{heading}: {rows[0][0]} does not lead to {file}'


if sys.argv[1:] == ['write']:
    PAGE.write_text(PICTURE.sub(lambda _: picture(), PAGE.read_text(), count=1))
    sys.exit()
flags.tap([(what, list(check())) for what, check in {
    'the picture of the rooms is that of the includes': drawn,
    'no chain is longer than it was': short,
    'each function stands in the file that is named': true,
    'the first file of a chain leads to the others': connected}.items()])
