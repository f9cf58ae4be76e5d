"""Every public entity has its comment; prints TAP.

Public is what a header declares in one of SPACES: types, concepts, aliases, constants, functions, as tools/reference.py
reads them. What needs no comment of its own: a specialization, a deduction guide, a member that is defined outside of
its class, and an overload of what has one. The site of tools/dev docs shows comments that begin with ///, and no
others.

So are the members that users write, those of contexts, trainers and options. An option is explained once for all
classes that have one of that name; those that are PyTorch's own, of layers and optimizers, are explained there."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

sys.path.insert(0, str(flags.ROOT / 'tools'))
import reference  # noqa: E402

SPACES = {'fulgurite'} | {f'fulgurite::{room}' for room in (
    'optim', 'data', 'metric', 'schedule', 'phase', 'tune', 'hook', 'report', 'checkpoint', 'chain', 'distributed', 'cli',
    'diagnose', 'exporting')}
# Of diagnose, whose entities are for those who add rules, these namespaces, too; the rows of rules are sentences.
DIAGNOSE = {'fulgurite::judge', 'fulgurite::refusal'}
HEAD = re.compile(r'(?:\[\[[^\]]*\]\] |inline |constexpr |consteval |static |virtual )*')
# What needs no comment; the last is a deduction guide.
NONE = re.compile(r'extern|friend|explicit|static_assert|using (?:namespace|enum|[\w:]+;)|[A-Z_0-9]+\(|'
                  r'(?:struct|class) \w+;|~|\w+\([^{]*\) -> [^{]*;$')
TYPE = re.compile(r'(?:struct|class|concept|enum class|enum|using) (\w+)(?: final)?(?= = | : | \{)')
ANGLES = r'<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>'
ROUND = r'\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)'
ATOM = rf'(?:requires \{{[^{{}}]*\}}|!?[\w:]+(?:{ANGLES})?|{ROUND})'
REQUIRES = re.compile(rf'requires ?{ATOM}(?: (?:&&|\|\|) {ATOM})* ')
NAME = re.compile(rf'(?:[\w:*&,.]|{ANGLES}|decltype{ROUND}| )+?[ &*]\(?\*?(\w+)\)?(?=\(|\{{| = |;)')


def plain(one: reference.Declaration) -> str:
    """The declaration behind its template's head."""
    text = REQUIRES.sub('', reference.without_template(one.text), 1)
    return text[HEAD.match(text).end() :]


def name_of(one: reference.Declaration) -> str | None:
    """What is declared and may need a comment. That of a specialization or of a member outside of its class is none."""
    text = plain(one)
    if NONE.match(text):
        return None
    if re.match(r'(?:struct|class|enum|using|concept)\b', text):
        return found[1] if (found := TYPE.match(text)) else None
    found = NAME.match(text)
    if not found or re.search(r'\boperator\b', found[0]) or found[0].endswith('::' + found[1]):
        return None
    return found[1]


def spaces(file: pathlib.Path) -> set[str]:
    """The namespaces of a header that are public."""
    return SPACES | (DIAGNOSE if flags.part(file) == 'diagnose' and not file.name.endswith('_rules.hpp') else set())


def entities(file: pathlib.Path):
    """Each declaration in a namespace of a header, with its name."""
    for one in reference.of_header(file):
        if one.space and (name := name_of(one)):
            yield one, name


def silent(declarations, known: set[str], owner: str = ''):
    """The declarations of which nothing is said. `known`: names that were explained so far, which grow."""
    for one in declarations:
        name = name_of(one)
        if not name or owner and (name in (owner, 'state') or plain(one).startswith('using ')):
            continue
        if one.doc:
            known.add(name)
        elif name not in known:
            yield f'{one.where} says nothing of {owner}{"::" if owner else ""}{name}'


# Classes whose public members are part of what users write.
OPEN = re.compile(r'(?:class|struct) (\w*Context|Trainer|TrainerBody|BetweenRuns|\w*Options)\b(?![^{]*;)')


def silent_members(file: pathlib.Path, options: set[str]):
    """Members of which nothing is said. `options`: names of options that were explained so far, which grow."""
    for one in reference.of_header(file):
        if opened := OPEN.match(plain(one)):
            yield from silent(one.members(), options if opened[1].endswith('Options') else set(), opened[1])


def all_silent():
    for file in flags.headers():
        yield from silent((one for one, _ in entities(file) if one.space in spaces(file)), set())
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
