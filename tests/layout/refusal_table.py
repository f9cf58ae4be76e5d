"""docs/refusals.md lists what the library can utter, and how each of Lightning's warnings W1 to W97 is decided.

    refusal_table.py write     rewrites the lists of identifiers from include/ and tests/
    refusal_table.py [BUILD]   compares page, headers and tests; prints TAP

The first lists, between two markers, are written from the sources. The rows of W1 to W97 are written by hand; each says
how it is decided (KINDS), with identifiers that the library has and tests that show them, or gives a reason."""

import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

PAGE = flags.ROOT / 'docs' / 'refusals.md'
BEGIN, END = '<!-- identifiers: written by tests/layout/refusal_table.py -->', '<!-- end of identifiers -->'
WARNINGS = 97
KINDS = ('rule', 'early error', 'warning', 'impossible', 'not applicable')
REASON_WORDS = 10

IDENTIFIER = r'fulgurite(?:\.[a-z0-9_]+){2}'
FIRST_LINE = re.compile(rf'// refused: \[({IDENTIFIER})\] (.+)')
OPTION_RULE = re.compile(rf'^ +FULGURITE_OPTION\("\[({IDENTIFIER})\] ", (\w+),((?:\s*"(?:[^"\\]|\\.)*")+),', re.M)
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'  # comments
    r'|"((?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\''  # literals
    r'|[(){},]|(?:[^\s"\'(){},/]|/(?![/*]))+', re.S)
# Helpers that complete a sentence. Their calls stand in the same header, or in those above it that name no identifier.
SAYS_LATER = ('refuse', 'refuse_name', 'fail')


def one_literal(parts: str) -> str:
    """Literals side by side, without their quotes."""
    return ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', parts))


def plain(literal: str) -> str:
    return literal.replace('\\"', '"').replace("\\'", "'")


class Call:
    """A call in a header that is given an identifier: who is called, and what it says; `…` stands for what only the run knows."""

    def __init__(self, tokens, at: int):
        before = [token[0] for token in tokens[max(0, at - 12):at]]
        opened = max((i for i, word in enumerate(before) if word == '('), default=0)
        inside = opened and not {';', '}'} & set(before[opened:])
        self.function = before[opened - 1] if inside else ''
        self.before = [word for word in before[opened + 1:] if word != ',']
        self.text = sentence(tokens, at + 1) if inside else ''


def sentence(tokens, at: int) -> str:
    """The literals from here to the end of the call."""
    depth, parts = 0, []
    for i, (text, literal) in enumerate(tokens[at:], at):
        if text == 'std::string' and tokens[i + 2][1] is not None:  # a literal made a string, so that + works
            continue
        if text in '({':
            depth += 1
        elif text in ')}':
            depth -= 1
            if depth < 0:
                break
        elif literal is not None:
            parts.append(('; ' if tokens[i - 1][0] == ',' and parts[-1:] not in ([], ['…']) else '') + plain(literal))
        elif text == ':' and parts and parts[-1] != '…':  # the other branch of a choice
            parts.append(' / ')
        elif text not in ('+', ',', ':') and parts[-1:] not in (['…'], [' / ']):
            parts.append('…')
    return re.sub(r'\s+', ' ', ''.join(parts)).strip()


def whole(header: pathlib.Path) -> str:
    """A header and its bodies."""
    body = header.with_suffix('.ipp')
    return header.read_text() + (body.read_text() if body.is_file() else '')


def tokens_of(header: pathlib.Path):
    all_of = TOKEN.finditer(whole(header))
    return [(found[0], found[1]) for found in all_of if not found[0].startswith(('//', '/*'))]


def classes_of(tokens) -> list[str]:
    """For each token the class at namespace scope in whose braces it stands, or in those of whose member; or ''."""
    found, inside, until, depth, named = [], '', 0, 0, ''
    for at, (text, _) in enumerate(tokens):
        following = tokens[at + 1][0] if at + 1 < len(tokens) else ''
        if not inside and text in ('class', 'struct') and tokens[at - 1][0] not in ('enum', '<', ','):
            named = next((one for one, _ in tokens[at + 1:at + 12] if re.fullmatch(r'[A-Z]\w*', one)), '')
        if not inside and not named and following == '(' and (member := re.fullmatch(r'([A-Z]\w*)(::~?\w+)+', text)):
            named = member[1]
        depth += {'{': 1, '}': -1}.get(text, 0)
        if not inside and text == '{' and named:
            inside, until = named, depth
        if inside and text == '}' and depth < until:
            inside, named = '', named if following in (',', '{') else ''  # behind the braces of an initialized member
        if not inside and text == ';':
            named = ''
        found.append(inside)
    return found


def completed(tokens, helper: int | None = None, helpers=()) -> list[str]:
    """What the calls of a header's own helpers say: of the one that is given this token, where there are several. A
    call is of its class's helper; in a class that has none, of the last helper before it."""
    classes, said = classes_of(tokens), []
    for at, (text, _) in enumerate(tokens[:-1]):
        first = next((i for i in range(at + 2, min(at + 5, len(tokens))) if tokens[i][1]), None)
        if text.split('.')[-1] not in SAYS_LATER or tokens[at + 1][0] != '(' or not first:
            continue
        theirs = [one for one in helpers if classes[at] and classes[one] == classes[at]]
        before = [one for one in helpers if one < at]
        theirs = theirs or [one for one in before if not classes[one]][-1:] or before[-1:]
        if helper is None or helper in (theirs or helpers[:1]):
            said.append(sentence(tokens, first))
    return [one for one in said if one]


def above(header: pathlib.Path) -> list:
    """The tokens of headers of its room that include this one, at once or by way of others, and name no identifier. Of
    core, none: its headers include each other for other reasons."""
    found, asked = [], [header] if flags.part(header) != 'core' else []
    for one in asked:
        include = f'#include <{one.relative_to(flags.INCLUDE)}>'
        for other in flags.headers():
            text = whole(other)
            near = flags.part(other) == flags.part(header) and include in text
            if near and other not in asked and '"fulgurite.' not in text:
                asked.append(other)
                found.append(tokens_of(other))
    return found


def calls():
    """(identifier, told as a warning, what it says) for each place of include/ that utters one at run time."""
    for header in flags.headers():
        tokens = tokens_of(header)
        short = [at for at, (_, literal) in enumerate(tokens)
                 if literal and re.fullmatch(IDENTIFIER, literal) and len(Call(tokens, at).text.split()) < 5]
        for at, (_, literal) in enumerate(tokens):
            if literal is None:
                continue
            # Where there is no run to warn through.
            if told := re.fullmatch(rf'warning: \[({IDENTIFIER})\] (.+)', literal):
                yield told[1], True, told[2].removesuffix('\\n').replace('%s', '…')
            if re.fullmatch(r'fulgurite\.[a-z]+\.', literal):  # completed by the helper's first argument
                for i, (text, _) in enumerate(tokens[:-2]):
                    name = tokens[i + 2][1]
                    if text in SAYS_LATER and tokens[i + 1][0] == '(' and name and re.fullmatch('[a-z_]+', name):
                        yield literal + name, False, sentence(tokens, i + 3)
            if not re.fullmatch(IDENTIFIER, literal) or tokens[at - 1][0] == '==':  # compared, not uttered
                continue
            call = Call(tokens, at)
            if call.function.endswith('silence.has'):
                continue
            if call.function == 'file::fail':
                call.text = 'cannot ' + call.text
            if call.function.endswith('at_least'):
                call.text = f'{call.text.split("…")[0]} is at least {call.before[-1]}'
            if len(call.text.split()) < 5:
                more_of_it = completed(tokens, at, short) + [said for of in above(header) for said in completed(of)]
                for more in more_of_it or ['…']:
                    yield literal, False, (call.text.rstrip('… ') + (more if more[0] in ':,;' else ' ' + more)).strip()
            else:
                yield literal, call.function.endswith(('warn', 'warn_each', 'said.each')), call.text


class Sources:
    """All identifiers: what they say, and the tests in which they occur."""

    def __init__(self):
        rules = (flags.INCLUDE / 'fulgurite' / 'diagnose' / 'option_rules.hpp').read_text()
        self.options = [
            (found[1], f'{found[2]}: {plain(one_literal(found[3]))}') for found in OPTION_RULE.finditer(rules)]
        option_ids = {identifier for identifier, _ in self.options}
        self.programs, self.refused = collections.defaultdict(list), {}
        for program in sorted((flags.ROOT / 'tests' / 'nocompile').glob('*.cpp'), key=lambda path: path.stem):
            if head := FIRST_LINE.match(program.read_text().split('\n', 1)[0]):
                self.programs[head[1]].append(program)
                if head[1] not in option_ids:
                    self.refused.setdefault((head[1], head[2].strip()), program)
        self.run_time, self.warned = collections.defaultdict(list), set()
        for identifier, warns, text in calls():
            self.warned |= {identifier} if warns else set()
            if (text, warns) not in self.run_time[identifier]:
                self.run_time[identifier].append((text, warns))
        for said in self.run_time.values():  # of what only the run knows, nothing is worth a row beside another
            said[:] = [one for one in said if one[0] != '…'] or said
        self.errors = {i for i, said in self.run_time.items() if not all(warns for _, warns in said)} | option_ids
        self.tests = {}
        for files in ('unit/*.cpp', 'cli/*.cpp', 'conformance/*.cpp', 'torch/**/*.cpp', 'static/*.cpp',
                      'distributed/*.py', 'distributed/*.hpp'):
            for test in sorted((flags.ROOT / 'tests').glob(files)):
                for identifier in set(re.findall(IDENTIFIER, test.read_text())):
                    self.tests.setdefault(identifier, test)

    def known(self) -> set[str]:
        return set(self.programs) | set(self.run_time) | self.errors


def relative(path: pathlib.Path) -> str:
    return f'`{path.relative_to(flags.ROOT)}`' if path else ''


def row(*cells: str) -> str:
    def shown(cell: str) -> str:
        parts = cell.replace('|', r'\|').split('`')  # each second one is code, which is shown as it stands
        return '`'.join(part if i % 2 else part.replace('<', '&lt;') for i, part in enumerate(parts))

    return '| ' + ' | '.join(map(shown, cells)) + ' |'


def by_area(heading: str, columns: str, rows: list[tuple[str, str]]) -> list[str]:
    areas = collections.defaultdict(list)
    for identifier, line in rows:
        areas[identifier.split('.')[1]].append(line)
    lines = [f'## {heading}', '']
    for area, those in sorted(areas.items()):
        lines += [f'### {area}', '', columns, '|' + '---|' * columns.count(' | ') + '---|', *those, '']
    return lines


def written(of: Sources) -> str:
    def shown(identifier: str) -> str:
        programs = [relative(one) for one in of.programs[identifier][:1]]
        return ', '.join(filter(None, programs + [relative(of.tests.get(identifier))]))

    refused = [(identifier, row(f'`{identifier}`', said, relative(program)))
               for (identifier, said), program in sorted(of.refused.items())]
    options = [(identifier, row(f'`{identifier}`', said, shown(identifier))) for identifier, said in of.options]
    thrown = [
        (identifier, row(f'`{identifier}`', ('warning: ' if warns else '') + text, relative(of.tests.get(identifier))))
        for identifier, said in sorted(of.run_time.items()) for text, warns in said]
    columns = '| identifier | sentence | test |'
    headings = {
        'Refused by the compiler': refused,
        'Options: refused by the compiler where they are `constant(...)`, else when the trainer is made': options,
        'Thrown as one Error, or given once as a warning': thrown}
    return '\n'.join(line for heading, rows in headings.items() for line in by_area(heading, columns, rows))


def parts_of(page: str) -> tuple[str, str, str]:
    before, rest = page.split(BEGIN + '\n')
    middle, after = rest.split(END + '\n')
    return before, middle, after


class Row:
    """What the hand-written row of a W says."""

    def __init__(self, cells: list[str], areas: set[str]):
        self.name, self.what, kinds, self.why, tests = cells
        self.kinds = [kind.strip() for kind in kinds.split(',')]
        quoted = re.findall(r'`([a-z]+\.[a-z0-9_]+)`', self.why)
        self.identifiers = ['fulgurite.' + name for name in quoted if name.split('.')[0] in areas]
        named = re.findall(r'`(tests/[^`]+)`((?:[\s,]*"[^"]*")*)', tests)
        self.tests = [(flags.ROOT / file, re.findall(r'"([^"]*)"', names)) for file, names in named]


def wrong_kinds(one: Row, of: Sources):
    has = {'rule': of.programs, 'early error': of.errors, 'warning': of.warned}
    named = any(names for _, names in one.tests)
    for kind in one.kinds:
        if kind not in KINDS:
            yield f'"{kind}" is none of {", ".join(KINDS)}'
        elif kind == 'not applicable' and len(one.why.split()) < REASON_WORDS:
            yield f'not applicable for a reason of less than {REASON_WORDS} words'
        elif kind == 'impossible' and not named:
            yield 'impossible, but no name of a test shows it'
        elif kind == 'warning' and not named and not any(i in of.warned for i in one.identifiers):
            yield 'a warning without an identifier that is told, or the name of a test'
        elif kind in ('rule', 'early error') and not any(i in has[kind] for i in one.identifiers):
            yield f'{kind}: it names no identifier of that kind'
    for identifier in one.identifiers if has.keys() & set(one.kinds) else ():
        if identifier in of.known() and not any(identifier in has.get(kind, ()) for kind in one.kinds):
            yield f'{identifier} is of another kind than {", ".join(one.kinds)}'


def wrong_tests(one: Row, of: Sources):
    shown = set()
    for path, names in one.tests:
        if not path.is_file():
            yield f'there is no test {path.relative_to(flags.ROOT)}'
            continue
        text = flags.joined(path.read_text())
        head = FIRST_LINE.match(text.split('\n', 1)[0])
        about = {head[1]} if head else set(re.findall(IDENTIFIER, text))
        shown |= about
        cases = re.findall(r'TEST_CASE\("((?:[^"\\]|\\.)*)"', text)
        yield from (f'{path.name} has no test "{name}"' for name in names if not any(name in case for case in cases))
        if not names and not about & set(one.identifiers) and not re.search(rf'\b{one.name}\b', text):
            yield f'{path.name} is about none of the identifiers, and does not name {one.name}'
    yield from (f'none of the tests is about {identifier}' for identifier in one.identifiers if identifier not in shown)
    programs = [path for path, _ in one.tests if path.parent.name == 'nocompile']
    if 'rule' in one.kinds and not programs:
        yield 'a rule, and no program that must not compile'
    if {'early error', 'warning', 'impossible'} & set(one.kinds) and len(programs) == len(one.tests):
        yield f'{", ".join(one.kinds)}, and no test that runs'


def silenceable(of: Sources) -> list[str]:
    """loop/options.hpp lists what can be silenced: all that the library warns of, and nothing else."""
    source = (flags.INCLUDE / 'fulgurite' / 'loop' / 'options.hpp').read_text()
    names = re.search(r'library_warnings = .*?\{(.*?)\}', source, re.S)[1]
    listed = {f'fulgurite.{name}' for name in re.findall(r'"([a-z_.]+)"', names)}
    missing = [f'{name} is a warning, and loop/options.hpp does not list it' for name in sorted(of.warned - listed)]
    idle = [f'{name} stands in loop/options.hpp, and nothing says it' for name in sorted(listed - of.known())]
    return missing + idle


def compare() -> list[tuple[str, list[str]]]:
    of, page = Sources(), PAGE.read_text()
    before, middle, after = parts_of(page)
    areas = {identifier.split('.')[1] for identifier in of.known()}
    wrong, seen = collections.defaultdict(list), collections.Counter()
    for line in (before + after).splitlines():
        cells = [cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]]
        if not cells or not re.fullmatch(r'W\d+', cells[0]):
            continue
        seen[cells[0]] += 1
        if len(cells) != 5:
            wrong['columns'].append(f'{cells[0]} has {len(cells)} columns')
            continue
        one = Row(cells, areas)
        unknown = [identifier for identifier in one.identifiers if identifier not in of.known()]
        wrong['identifiers'] += [f'{one.name}: {identifier} occurs nowhere in include/' for identifier in unknown]
        wrong['kinds'] += [f'{one.name}: {what}' for what in wrong_kinds(one, of)]
        wrong['traits'] += [f'{one.name}: {what}' for what in held_traits(cells)]
        wrong['tests'] += [f'{one.name}: {what}' for what in wrong_tests(one, of)]
    wanted = [f'W{i}' for i in range(1, WARNINGS + 1)]
    wrong['columns'] += [f'{name} has {seen[name]} rows' for name in wanted if seen[name] != 1]
    wrong['columns'] += [f'{name} is none of W1 to W{WARNINGS}' for name in seen if name not in wanted]
    stale = [] if middle == written(of) else [
        'docs/refusals.md is not what the sources say: python3 tests/layout/refusal_table.py write']
    tested = of.tests.keys() | of.programs.keys()
    untested = [f'{identifier} occurs in no test' for identifier in sorted(of.known()) if identifier not in tested]
    return [('the lists of identifiers are as the sources say', stale),
            ('each identifier has its test', untested),
            ('each warning can be silenced by its identifier', silenceable(of)),
            ('each of W1 to W97 is decided once', wrong['columns']),
            ('decisions name identifiers of the library', wrong['identifiers']),
            ('decisions are what they are called', wrong['kinds']),
            ('what no part of ours has is not there', wrong['traits']),
            ('decisions are shown by tests', wrong['tests'])]


def held_traits(cells: list[str]) -> list[str]:
    """A row that says "none of ours does yet" of a trait, which a part of the library has after all."""
    text = ' '.join(cells)
    if 'none of ours does yet' not in text:
        return []
    return [f'{header.relative_to(flags.INCLUDE)} has {trait}, and the row says that none of ours does'
            for trait in re.findall(r'says(?: which it)? `(\w+)`', text)
            for header in flags.headers()
            if flags.part(header) not in ('concept', 'diagnose')
            and re.search(rf'static constexpr bool {trait} =', header.read_text())]


if sys.argv[1:] == ['write']:
    first, _, last = parts_of(PAGE.read_text())
    PAGE.write_text(first + BEGIN + '\n' + written(Sources()) + END + '\n' + last)
else:
    flags.tap(compare())
