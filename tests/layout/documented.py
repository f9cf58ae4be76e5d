"""Every public entity has its comment; prints TAP.

Public is what stands at the beginning of a line in one of SPACES: types, concepts, aliases, constants, functions. What
needs none of its own: a specialization, a deduction guide, a member that is defined outside of its class, and an
overload of what has one. The site of tools/dev docs shows comments that begin with ///, and no others.

So are the members that users write, those of contexts, trainers and options. An option is explained once for all
classes that have one of that name; those that are PyTorch's own, of layers and optimizers, are explained there."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

SPACES = {'fulgurite'} | {f'fulgurite::{room}' for room in (
    'optim', 'data', 'metric', 'schedule', 'phase', 'tune', 'hook', 'report', 'checkpoint', 'chain', 'distributed', 'cli',
    'diagnose', 'exporting')}
# Of diagnose, whose entities are for those who add rules, these namespaces, too; the rows of rules are sentences.
DIAGNOSE = {'fulgurite::judge', 'fulgurite::refusal'}
HEAD = re.compile(r'(?:\[\[[^\]]*\]\] )*(?:inline |constexpr |consteval |static )*')
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


def places(lines: list[str]):
    """Each line of a header with the namespace that it stands in, empty outside of any."""
    within = []
    for at, line in enumerate(lines):
        if opened := re.match(r'(inline )?namespace ([\w:]*) ?\{$', line):
            end = next(below for below in range(at + 1, len(lines)) if lines[below].startswith('}'))
            # One declaration of others' in between: clang-format wants no comment at such an end.
            if lines[end] != '}' or any(inside.endswith('{') for inside in lines[at + 1 : end]):
                within += ['' if opened[1] else opened[2]]
        elif line.startswith('}  // namespace') and within:
            within.pop()
        yield line, '::'.join(filter(None, within))


def entities(lines: list[str]):
    """Each line that declares something at namespace scope: its number from 0, the namespace, the name."""
    for at, (line, space) in enumerate(places(lines)):
        if space and (name := declared(line)):
            yield at, space, name


def spaces(file: pathlib.Path) -> set[str]:
    """The namespaces of a header that are public."""
    return SPACES | (DIAGNOSE if flags.part(file) == 'diagnose' and not file.name.endswith('_rules.hpp') else set())


def silent(file: pathlib.Path):
    lines, known = file.read_text().splitlines(), set()
    for at, space, name in entities(lines):
        if space not in spaces(file):
            continue
        above = at - 1
        while above > 0 and ABOVE.match(lines[above]):
            above -= 1
        if lines[above].startswith('///'):
            known.add(name)
        elif name not in known:
            yield f'{file.relative_to(flags.ROOT)}:{at + 1} says nothing of {name}'


# Classes whose public members are part of what users write.
OPEN = re.compile(r'(?:class|struct) (\w*Context|Trainer|TrainerBody|BetweenRuns|OwnedRun|\w*Options)\b(?![^{]*;)')
PLUMBING = r'(?:[A-Z_]+\(|using |friend |static_assert|explicit|template|requires|public:|private:|protected:|~|//|}|#)'
MEMBER = re.compile(r'  (?! )(?:\[\[[^\]]*\]\] )*(?:static |constexpr |virtual |inline )*'
                    r'(?P<type>[\w:<>, *&.\[\]()]+?)[ &*]\(?\*?(?P<name>\w+)\)?(?P<what>\(|\{| = |;|$)')


def silent_members(file: pathlib.Path, options: set[str]):
    """Members of which nothing is said. `options`: names of options that were explained so far, which grow."""
    lines = file.read_text().splitlines()
    within, public, known = None, True, set()
    for at, line in enumerate(lines):
        if opened := OPEN.match(line):
            within, public = opened[1], line.startswith('struct')
            known = options if within.endswith('Options') else set()
        elif line.startswith('}'):
            within = None
        elif re.match(r' (public|private|protected):', line):
            public = line == ' public:'
        elif within and public and not re.match('  ' + PLUMBING, line) and (member := MEMBER.match(line)):
            name, above = member['name'], at - 1
            if name.startswith('operator') or name in (within, 'state') or re.match(r'  ' + within + r'\(', line):
                continue
            while re.match(r'  (?:template\b|  requires|    )', lines[above]):
                above -= 1
            beside = '///<' in line or (lines[at + 1].startswith('      ') and '///<' in lines[at + 1])
            if lines[above].startswith('  ///') or beside:
                known.add(name)
            elif name not in known:
                yield f'{file.relative_to(flags.ROOT)}:{at + 1} says nothing of {within}::{name}'


def all_silent():
    for file in flags.headers():
        yield from silent(file)
    # The hollow trainer is what a trainer that was refused has in the place of its members.
    theirs = ('torch/chain/', 'torch/optim/', 'diagnose/trainer_rules.hpp')
    files = [file for file in flags.headers() if not any(one in str(file) for one in theirs)]
    options: set[str] = set()
    for file in files:
        list(silent_members(file, options))
    for file in files:
        yield from silent_members(file, options)


if __name__ == '__main__':
    flags.tap([('every public entity has its comment, and every member that users write', list(all_silent()))])
