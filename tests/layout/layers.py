"""Reads the #includes of include/fulgurite and fails on an arrow that turns back; prints TAP, a line per rule.

    layers.py [BUILD]    the rules
    layers.py rooms      how large each room is, and which rooms its headers do include, as a table"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

# part -> the parts it may include (besides itself and OPEN). Edit here.
LOW = ['core', 'hook', 'metric', 'policy', 'concept']
ALLOWED = {
    'core': [],
    'hook': ['core'],
    'metric': ['core'],
    'policy': ['core'],
    'concept': ['core', 'hook', 'metric', 'policy'],
    'loop': LOW,
    'diagnose': LOW + ['loop'],
    'schedule': ['core'],
    'checkpoint': ['core'],
    'data': ['core', 'concept'],
    'report': LOW + ['loop', 'checkpoint'],
    'tuner': LOW + ['loop', 'report', 'checkpoint', 'data', 'callback', 'logger'],
    'callback': LOW + ['loop', 'report', 'checkpoint', 'schedule'],
    'logger': LOW + ['loop', 'report', 'checkpoint'],
    'defaults': LOW + ['loop', 'diagnose', 'report', 'checkpoint', 'callback', 'logger'],
    'cli': LOW + ['loop', 'diagnose', 'report', 'checkpoint', 'data', 'callback', 'logger', 'tuner', 'defaults'],
    'torch': LOW + ['loop', 'schedule', 'checkpoint', 'data', 'report', 'tuner', 'callback', 'logger'],
    'distributed': LOW + ['loop', 'schedule', 'checkpoint', 'data', 'report', 'tuner', 'callback', 'logger', 'torch'],
    'fwd.hpp': [],
}
# Single headers that join two parts: the trainer, and what it is made of.
JOINTS = {f'fulgurite/loop/{name}.hpp': ['diagnose'] for name in (
    'trainer', 'between_runs')}
# What everything may include: these include nothing of ours.
OPEN = {'fulgurite/fwd.hpp', 'fulgurite/diagnose/member_sentences.hpp'}
LIBTORCH = re.compile(r'(torch|ATen|c10|caffe2)/')
NEVER = {'boost/hana.hpp': 'include single headers, as <boost/hana/tuple.hpp>',
         'range/v3/all.hpp': 'include single views, as <range/v3/view/chunk.hpp>'}
MOST_LINES, AIM = 700, 400

text = {header: header.read_text() for header in flags.headers() + flags.body_files()}
code = {header: re.sub(r'//[^\n]*|/\*.*?\*/', '', source, flags=re.S) for header, source in text.items()}


def name(header: pathlib.Path) -> str:
    return header.relative_to(flags.INCLUDE).as_posix()


def ours(header: pathlib.Path) -> list[pathlib.Path]:
    return [flags.INCLUDE / path for path in flags.includes(header) if path.startswith('fulgurite/')]


def arrows():
    for header in text:
        here = flags.part(header)
        if here in flags.PROGRAMS:
            continue
        if here not in ALLOWED:
            yield f'{name(header)}: no part is called {here}; the table in tests/layout/layers.py has them'
            continue
        for target in ours(header):
            there = target.relative_to(flags.INCLUDE / 'fulgurite').parts[0]
            if name(target) not in OPEN and there not in [here, *ALLOWED[here], *JOINTS.get(name(header), [])]:
                yield f'{name(header)} includes {name(target)}, but {here} may include only {", ".join(ALLOWED[here]) or "the standard library"}'


def exist():
    for header in text:
        for target in ours(header):
            if target not in text and target.name not in flags.BODIES:
                yield f'{name(header)} includes {name(target)}, which is not there'
        for path in re.findall(r'#[ \t]*include[ \t]*"([^"]+)"', code[header]):
            yield f'{name(header)} includes "{path}": write <fulgurite/...>, which does not depend on the folder'


def cycles():
    done, path = set(), []
    # A header's last line includes its body file, which begins with the header.
    following = {header: [target for target in ours(header) if target.suffix != '.ipp'] for header in text}

    def visit(header):
        if header in path:
            yield ' -> '.join(name(step) for step in path[path.index(header):] + [header])
        elif header not in done and header in text:
            path.append(header)
            for target in following[header]:
                yield from visit(target)
            path.pop()
            done.add(header)

    for header in text:
        yield from visit(header)


def libtorch():
    for header in text:
        if flags.on_torch(header):
            uses = re.search(r'\b(torch|at|c10|c10d)::', code[header])
            if uses and not any(LIBTORCH.match(path) for path in flags.reached(header)):
                yield f'{name(header)} uses {uses[0]} and includes no header of LibTorch, not even through ours'
            continue
        for path in flags.includes(header):
            if LIBTORCH.match(path):
                yield f'{name(header)} includes <{path}>: only torch/ and distributed/ know LibTorch'


def forbidden():
    for header in text:
        for path in flags.includes(header):
            if path in NEVER:
                yield f'{name(header)} includes <{path}>: {NEVER[path]}'


def forward():
    for header in text:
        if name(header) in OPEN:
            for path in flags.includes(header):
                if '/' in path or path.endswith(('.hpp', '.h')):
                    yield f'{name(header)} includes <{path}>: it may include the standard library only'


def openings():
    for header, source in text.items():
        lines = [line for line in source.splitlines()[:4] if line.strip()]
        if not lines or lines[0] != '#pragma once':
            yield f'{name(header)} does not begin with #pragma once'
        elif len(lines) < 2 or not lines[1].startswith('//'):
            yield f'{name(header)} does not say in a comment below #pragma once what it is'


def lengths():
    for header, source in text.items():
        if source.count('\n') > MOST_LINES and flags.part(header) not in flags.PROGRAMS:  # these are lists
            lines = source.count('\n')
            yield f'{name(header)} has {lines} lines, {MOST_LINES} at most: split it (150 to {AIM} are the aim)'


def rooms():
    """A row for each room: its headers and body files, their lines, the longest, the rooms that they include."""
    yield '| room | files | lines | longest file | includes |'
    yield '|---|---:|---:|---|---|'
    within = {room: [header for header in text if flags.part(header) == room] for room in ALLOWED if '.' not in room}
    for room, headers in sorted(within.items(), key=lambda one: -sum(text[header].count('\n') for header in one[1])):
        longest = max(headers, key=lambda header: text[header].count('\n'))
        included = ', '.join(sorted(flags.rooms_included(room))) or 'nothing'
        yield (f'| `{room}` | {len(headers)} | {sum(text[header].count(chr(10)) for header in headers)} '
               f'| `{longest.name}`, {text[longest].count(chr(10))} | {included} |')


RULES = {
    'no include arrow turns back': arrows,
    'what is included exists, and is named from the root': exist,
    'no header includes itself through others': cycles,
    'only torch/ and distributed/ include LibTorch, and they do it themselves': libtorch,
    'Hana and range-v3 are included by single headers': forbidden,
    'a header that everything may include includes the standard library only': forward,
    'every header begins with #pragma once and what it is': openings,
    f'no header has more than {MOST_LINES} lines': lengths,
}
if sys.argv[1:] == ['rooms']:
    print(*rooms(), sep='\n')
    sys.exit()
flags.tap([(rule, list(check())) for rule, check in RULES.items()])
