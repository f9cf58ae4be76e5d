"""Every public entity has its comment; prints TAP.

Public is what stands at the beginning of a line in one of SPACES: types, concepts, aliases, constants, functions. What
needs none of its own: a specialization, a deduction guide, a member that is defined outside of its class, an overload
of what has one, and a constant in the line below one that has."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

SPACES = {'fulgurite'} | {f'fulgurite::{room}' for room in (
    'optim', 'data', 'metric', 'schedule', 'phase', 'tune', 'hook', 'report', 'checkpoint')}
# Rooms on which others work at this moment: mended when their work is merged. Empty this list, do not add to it.
LATER: list[str] = []
HEAD = re.compile(r'(?:\[\[[^\]]*\]\] )*(?:inline |constexpr |consteval |static |FULGURITE_COLD |FULGURITE_BULK )*')
TYPE = re.compile(r'(?:struct|class|concept|enum class|enum|using) (\w+)(?=\s*(?:=|:|\{|$))')
VARIABLE = re.compile(r'[\w:<>, *&.]+? (\w+)(?:\{| = |;|$)')
FUNCTION = re.compile(r'[\w:<>, *&.\[\]()]+?[ &*](\w+)\(')
# A line that belongs to the declaration below it.
ABOVE = re.compile(r'template\b|  requires|    |#')


def declared(line: str) -> str | None:
    """The name that a line declares which may need a comment."""
    rest = line[HEAD.match(line).end() :]
    none = r'\s|$|}|#|//|namespace|template|extern|using (?:namespace|enum|\w+::)|public|private|[A-Z_]+\('
    if re.match(none, rest):
        return None
    if re.match(r'(?:struct|class) \w+;', rest) or re.search(r'\) -> .*;$', rest):
        return None
    if kind := TYPE.match(rest):
        return kind[1]
    if re.match(r'(?:struct|class|enum|using|concept)\b', rest):
        return None  # a specialization
    call = FUNCTION.match(rest)
    if call and '::' not in rest[:call.end()].replace('std::', '').replace('at::', '').split(' ')[-1]:
        return call[1]
    variable = VARIABLE.match(rest) if line.startswith(('inline constexpr', 'constexpr')) else None
    return variable[1] if variable else None


def silent(file: pathlib.Path):
    lines = file.read_text().splitlines()
    within, known = [], set()
    for at, line in enumerate(lines):
        if opened := re.match(r'(?:inline )?namespace ([\w:]*) ?\{', line):
            within += [opened[1]]
        elif line.startswith('}  // namespace') and within:
            within.pop()
        elif within and '::'.join(within) in SPACES and (name := declared(line)):
            above = at - 1
            while above > 0 and ABOVE.match(lines[above]):
                above -= 1
            said = lines[above].startswith('//')
            constant = line.startswith('inline constexpr') and lines[at - 1].startswith('inline constexpr')
            if said or (constant and lines[at - 1].endswith(';')):
                known.add(name)
            elif name not in known:
                yield f'{file.relative_to(flags.ROOT)}:{at + 1} says nothing of {name}'


def all_silent():
    for file in flags.headers():
        if flags.part(file) not in LATER + ['diagnose']:
            yield from silent(file)


flags.tap([('every public entity has its comment', list(all_silent()))])
