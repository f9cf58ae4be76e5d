"""Writes the pages of reference from the headers: docs/hooks.md, context.md, options.md and callbacks.md.

    python3 tools/reference.py write

The prose comes from comments: `///` above a declaration, `///<` beside it, `/* */` above a row of the tables of hooks.
Headers are as clang-format leaves them, so declarations are read by lines and brackets. What cannot be read, what has
no comment, and an option or a callback that no page has are mistakes, which tests/layout/reference.py prints."""

import dataclasses
import functools
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / 'include' / 'fulgurite'
COLUMNS = 120
LITERAL = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\''
mistakes: list[str] = []


def mistake(text: str) -> str:
    mistakes.extend([text] if text not in mistakes else [])
    return text


# The declarations of headers.

@dataclasses.dataclass(eq=False)
class Declaration:
    """What a namespace or a class declares, in one line without comments. `body`: the lines between its braces."""
    file: pathlib.Path
    line: int
    text: str
    doc: list[str]
    body: tuple[int, int]
    section: str  # the comment above its group of members
    space: str

    @functools.cached_property
    def name(self) -> str:
        """Of a class, an enumeration or a concept that is no specialization; otherwise empty."""
        head = without_template(self.text)
        found = re.match(r'(?:requires .*? )?(?:enum class|struct|class|concept) (\w+)(?: final)?(?= \{| = | : )', head)
        return found[1] if found else ''

    @functools.cached_property
    def where(self) -> str:
        return f'{self.file.relative_to(ROOT)}:{self.line + 1}'

    def wrong(self, what: str) -> None:
        mistake(f'{self.where}: {what}')

    def explained(self, what: str = '') -> list[str]:
        """The comment, which must be there."""
        if not self.doc:
            self.wrong(f'nothing is said of {what or self.name}')
        elif prose(self.doc).count('`') % 2:
            self.wrong(f'a backtick has no partner in the comment of {what or self.name}')
        elif re.search(r'^\S.*\n +\S', '\n'.join(self.doc), re.M):
            self.wrong(f'code in the comment of {what or self.name} needs an empty line above, and four columns')
        return self.doc

    def members(self) -> list['Declaration']:
        """What it declares publicly."""
        if self.body[0] > self.body[1] and not re.search(r'\{\};?$', self.text):
            self.wrong('a class in one line cannot be read')
        is_class = re.match(r'(?:requires .*? )?class\b', without_template(self.text))
        return list(declarations(self.file, *self.body, 2, not is_class))


@functools.cache
def lines_of(file: pathlib.Path) -> list[str]:
    """The lines of a header, without what raw literals contain."""
    raw = re.sub(r'\bR"\((.*?)\)"', lambda found: '""' + '\n' * found[0].count('\n'), file.read_text(), flags=re.S)
    return raw.splitlines()


def declarations(file: pathlib.Path, first: int, last: int, indent: int, public: bool = True):
    """The public declarations between two lines, `indent` columns from the left."""
    lines, at, spaces = lines_of(file), first, []
    doc: list[str] = []
    section = comment = ''
    while at < last:
        line = lines[at].strip()
        if not line:
            section, comment, doc = comment or section, '', []
        elif re.match(r'///(?!<)', line):
            doc.append(line[4:])
        elif line.startswith('//'):
            comment, doc = f'{comment} {line[3:]}'.strip(), []
        elif line.startswith('#'):
            while lines[at].endswith('\\'):
                at += 1
        elif access := re.fullmatch(r'(public|private|protected):', line):
            public = access[1] == 'public'
        elif opened := re.fullmatch(r'(inline )?namespace ([\w:]*) ?\{', line):
            spaces.append('' if opened[1] else opened[2])
            doc = []
        elif re.fullmatch(r'\}(  // (inline )?namespace.*)?', line) and spaces:
            spaces.pop()
        else:
            one, at = declaration(file, at, last)
            one.section, one.space = section, '::'.join(filter(None, spaces))
            one.doc, doc, comment = doc or one.doc, [], ''
            if len(lines[one.line]) - len(lines[one.line].lstrip()) != indent:
                one.wrong(f'this line cannot be read: {line}')
            if public:
                yield one
            continue
        at += 1


def declaration(file: pathlib.Path, begin: int, last: int) -> tuple[Declaration, int]:
    """The declaration that begins in a line, and the line behind it."""
    lines, at, depth, text, beside, inside = lines_of(file), begin, 0, [], [], 0
    while True:
        if not inside:
            beside += re.findall(r'///< ?(.*)', lines[at])
        shown = re.sub(rf'({LITERAL})|//.*|/\*.*?\*/', lambda found: found[1] or '', lines[at]).strip()
        text.append(shown)
        shown, at = re.sub(LITERAL, '', shown), at + 1
        depth += len(re.findall(r'[({\[]', shown)) - len(re.findall(r'[)}\]]', shown))
        ends = re.search(r'^(?!requires).*[;}]$', shown) or re.fullmatch(r'[A-Z_\d]+\(.*\)', ' '.join(text))
        if ends and not depth:
            break
        if at >= last or depth < 0:
            mistake(f'{file.relative_to(ROOT)}:{begin + 1}: this declaration has no end')
            break
        if not inside and depth == 1 and shown.endswith('{'):
            inside = at
    while at < last and (more := re.match(r'\s+///< ?(.*)', lines[at])):
        beside.append(more[1])
        at += 1
    return Declaration(file, begin, ' '.join(text), beside, (inside or at, at - 1), '', ''), at


@functools.cache
def headers() -> list[pathlib.Path]:
    return [file for file in sorted(INCLUDE.rglob('*.hpp')) if not file.name.startswith('bodies')]


@functools.cache
def of_header(file: pathlib.Path) -> list[Declaration]:
    return list(declarations(file, 0, len(lines_of(file)), 0))


@functools.cache
def entities() -> list[Declaration]:
    """The classes, enumerations and concepts of all headers."""
    return [one for file in headers() for one in of_header(file) if one.name and one.space.startswith('fulgurite')]


@functools.cache
def entity(name: str, near: Declaration | None = None) -> Declaration | None:
    """The one of that name: of the same header, of the same room, or of the outermost namespace."""
    file = near.file if near else ROOT
    return min((one for one in entities() if one.name == name), default=None,
               key=lambda one: (one.file != file, one.file.parent != file.parent, len(one.space)))


def split(text: str, by: str) -> list[str]:
    """The parts of a text between separators outside of literals and brackets."""
    parts, depth = [''], 0
    for token in re.findall(rf'{LITERAL}|->|.', text):
        depth += (token in '(<{[') - (token in ')>}]')
        if token == by and depth == 0:
            parts.append('')
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


@dataclasses.dataclass
class Field:
    name: str
    type: str
    default: str
    doc: list[str]
    of: Declaration


def fields(of: Declaration) -> list[Field]:
    """The data members of a struct, in the order in which they are declared."""
    found: list[Field] = []
    for one in of.members():
        text = re.sub(r'^\[\[.*?\]\] ', '', one.text)
        if not text.endswith(';') or re.match(r'(?:using|friend|static|template|struct|class|enum|explicit|constexpr|'
                                              r'static_assert|~|FULGURITE_\w+\(\w*\);|' + of.name + r'\()', text):
            continue
        if pointer := re.fullmatch(r'(\S+) \(\*(\w+)\)(\(.*?\)) = (.*);', text):
            found.append(Field(pointer[2], f'{pointer[1]} (*){pointer[3]}', pointer[4], one.doc, one))
            continue
        declarators = [split(part, '=') for part in split(text[:-1], ',')]
        head = re.fullmatch(r'(.+?)([ &*]+)([a-z_]\w*)(\{.*\})?', declarators[0][0])
        if re.search(r'[ &*](?:\w+|operator\(\))\((?:[^()]|\([^()]*\))*\)(?: const| override)?$', declarators[0][0]):
            continue  # a function
        if not head or re.search(r'[()](?![^<]*>)', declarators[0][0]):
            one.wrong(f'this member cannot be read: {text}')
            continue
        declarators[0][0] = head[3]
        for name, *default in declarators:
            found.append(Field(name, head[1] + head[2].strip(), ' = '.join(default) or head[4] or '', one.doc, one))
    return found


# Comments as Markdown.

def escaped(text: str) -> str:
    """Text of which only code is code; also for a cell of a table."""
    parts = text.split('`')
    parts[::2] = [part.replace('*', r'\*').replace('<', '&lt;') for part in parts[::2]]
    return '`'.join(parts)


def code(text: str) -> str:
    return f'`{text}`' if text else ''


def paragraphs(doc: list[str]):
    """(is it code, its text) for each paragraph of a comment; lines that are indented by four columns are code."""
    for block in re.findall(r'(?: {4}.*\n+)+|(?:\S.*\n)+', '\n'.join(doc) + '\n'):
        is_code = block.startswith('    ')
        yield is_code, textwrap.dedent(block.rstrip()) if is_code else ' '.join(block.split())


def prose(doc: list[str]) -> str:
    """A comment in one line."""
    return ' '.join(code(' '.join(text.split())) if is_code else text for is_code, text in paragraphs(doc))


def wrapped(text: str, indent: str = '') -> list[str]:
    """Lines, none of which begins with what Markdown takes for a list, a heading or a quotation."""
    glued = re.sub(r' (?=(?:[-+*#>=]|\d+[.)]) )', '\0', text)
    return [indent + line.replace('\0', ' ') for line in textwrap.wrap(
        glued, COLUMNS - len(indent), break_on_hyphens=False, break_long_words=False)]


def article(doc: list[str], indent: str = '', label: str = '') -> list[str]:
    """A comment as paragraphs and blocks of code. `label`: what stands before its first words."""
    lines: list[str] = []
    for is_code, text in paragraphs(doc):
        shown = [(indent + line).rstrip() for line in ['```cpp', *text.splitlines(), '```']]
        lines += ([''] if lines else []) + (shown if is_code else wrapped(label + escaped(text), indent))
        label = ''
    return lines


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = [heads, ['---'] * len(heads), *([cell.replace('|', r'\|') for cell in row] for row in rows)]
    return ['', *('| ' + ' | '.join(cells) + ' |' for cells in lines), ''] if rows else []


def item(label: str, doc: list[str]) -> list[str]:
    """An element of a list."""
    shown = article(doc, '  ', label + ': ')
    return ['- ' + shown[0][2:], *shown[1:]] + ([''] if '  ```' in shown else [])


def first_sentence(doc: list[str]) -> str:
    return re.match(r'(?:`[^`]*`|[^`])*?(?:\.(?= |$)|:(?= `|$)|$)', prose(doc))[0].rstrip('.:')


def header_of(one: Declaration) -> str:
    return code(f'fulgurite/{one.file.relative_to(INCLUDE)}')


def page(title: str, *parts: list[str]) -> str:
    lines = [f'# {title}', '', '<!-- Written by tools/reference.py from the comments of include/: change these. -->']
    for part in parts:
        lines += ['', *part]
    return re.sub(r'\n{3,}', '\n\n', '\n'.join(lines)).strip() + '\n'


# docs/hooks.md

WITH_PHASE = ('STEPS', 'EVENTS', 'OVERRIDES', 'DATA_HOOKS', 'CALLBACK_HOOKS')
RESULTS = {'none': '', 'may_stop': '`Stop`', 'may_skip_epoch': '`Flow`', 'value': 'a value'}


@functools.cache
def forms() -> dict[str, str]:
    """Each hook's arguments as diagnose/hook_refusals.hpp writes them into messages; `optimizer.lr` of a policy's."""
    text = (INCLUDE / 'diagnose' / 'hook_refusals.hpp').read_text()
    found = dict(re.findall(r'^FULGURITE_FORM\((\w+), "(.*?)"', text, re.M))
    steps = re.findall(r'^FULGURITE_FORM\((\w+), "\(\) or \1\(auto& ctx\)"', text, re.M)
    found |= {name: '(auto const& batch, auto& ctx)' for name in steps}
    functions = re.findall(r'^FULGURITE_FUNCTION\((\w+), (\w+), "(.*?)"', text, re.M)
    return found | {'configure_optimizers': '(auto& ctx)'} | {f'{kind}.{name}': form for kind, name, form in functions}


def argument_lists(group: str, name: str, takes: str) -> list[str]:
    """The argument lists that a hook may have. Arguments that may have any type have none here."""
    kind = 'strategy' if group.startswith('DISTRIBUTED') else group.split('_')[0].lower()
    form = forms().get(f'{kind}.{name}', forms().get(name, '()'))
    either = sorted(re.findall(r'(?:^|or \w+)\((.*?)\)', form), key=len)
    names = [re.sub(r'^auto(?: const)?&* ', '', one) for one in split(either[-1], ',') if one]
    before = [one for one in names if one != 'ctx']
    if len(before) != ('nothing', 'one', 'two', 'three').index(takes) and name != 'gradients':
        mistake(f'{name} takes {takes} in hook/, and diagnose/hook_refusals.hpp has {forms().get(name)}')
    ends = [names[at:] for at in range(len(names) + 1)]
    lists = ends if group == 'EVENTS' else [names, before] if 'ctx' in names else [names]
    return [f'({", ".join(one)})' for one in lists] + [f'({one})' for one in either[:-1]]


def tables_of_hooks():
    """(table, what is said of it, its rows: what is said, name, takes, answer, where, ", false" if never in manual)"""
    row = r'(?:/\* ([^/]*) \*/ )?ROW\((\w+), +Takes::(\w+), +Answer::(\w+), +Where::(\w+)(, false)?\)'
    for header in ('hooks.hpp', 'policy_hooks.hpp'):
        text = (INCLUDE / 'hook' / header).read_text()
        for doc, name, rows in re.findall(
                r'((?://(?! clang).*\n)*)#define FULGURITE_(\w+)\(ROW\)((?:.*\\\n)+.*)', text):
            rows = re.sub(r'\s*\\\n\s*', ' ', rows)
            if rest := re.sub(row, '', rows).strip():
                mistake(f'hook/{header}: these rows of {name} cannot be read: {rest}')
            yield name, [line[3:] for line in doc.splitlines()], re.findall(row, rows)


def enumerators(one: Declaration) -> list[tuple[str, str]]:
    """(value, what is said of it) of an enumeration."""
    found: list[tuple[str, str]] = []
    lines = lines_of(one.file)[slice(*one.body)] or [re.search(r'\{(.*)\}', one.text)[1]]
    for line in lines:
        values, _, said = line.partition('///<')
        if not values.strip() and found:
            found[-1] = (found[-1][0], found[-1][1] + said)
        found += [(value.split('=')[0].strip(), said.strip())
                  for value in values.split('//')[0].split(',') if value.strip()]
    return found


def phases() -> list[Declaration]:
    return [one for one in of_header(INCLUDE / 'loop' / 'options.hpp') if one.space.endswith('phase') and one.name]


def hooks_page() -> str:
    sections, known = [], {one.name for one in phases()}
    for group, doc, rows in sorted(tables_of_hooks(), key=lambda one: one[0] != 'STEPS'):
        cells = []
        for said, name, takes, answer, where, not_in_manual in rows:
            phase = '' if where == 'every_stage' else ''.join(word.capitalize() for word in where.split('_'))
            if not said or (phase and phase not in known):
                mistake(f'hook/: nothing is said of {name}' if not said else f'hook/: {name} has no phase::{phase}')
            lists = ', '.join(map(code, argument_lists(group, name, takes)))
            more = [RESULTS[answer], phase or 'any'] if group in WITH_PHASE else []
            said += ' `Manual` never calls it.' if not_in_manual else ''
            cells.append([code(name), lists, *more, escaped(said)])
        heads = ['name', 'arguments', *(['result', 'phase'] if group in WITH_PHASE else []), 'when, and what for']
        title = group.replace('_', ' ').capitalize()
        doc = doc or [mistake(f'nothing is said of FULGURITE_{group}')]
        sections.append([f'## {title}', '', *article(doc), *table(heads, cells)])
    answers = entity('Answer')
    results = [[RESULTS[answer] or 'none', escaped(said)] for answer, said in enumerators(answers)
               if said or answers.wrong(f'nothing is said of Answer::{answer}')]
    intro = (
        'The functions that the trainer calls on your classes. All but `training_step`, `configure_optimizers` and '
        'those that every optimizer or strategy must have are optional. None needs a base class or a registration; a '
        'name that is nearly one of these does not compile, and neither do arguments or a result that do not fit. An '
        'argument without a type is taken as `auto&`. `ctx` is the context, `auto& ctx` or `fulgurite::Context& ctx`: '
        '[context.md](context.md) says what it has in which phase; the phase `any` is `Fit`, or that of the stage. '
        '[semantics.md](semantics.md) has the order of all hooks.')
    return page('Hooks', wrapped(intro), ['## Results', *table(['result', 'what a hook with it returns'], results)],
                *sections)


# docs/context.md

# What a member of RunContext requires, in the order of the page, and where it therefore exists.
STAGES = {
    '': 'Every hook with `auto& ctx`', 'Phase::logs': 'Phases that can log',
    'Phase::trains': 'Phases that may be in a fit', 'Phase::trains && R::automatic': 'The same, with `Automatic`',
    'std::same_as<Phase, phase::Train>': 'Training',
    'std::same_as<Phase, phase::Train> && R::automatic': 'Training with `Automatic`',
    'std::same_as<Phase, phase::Train> && !R::automatic': 'Training with `Manual`'}


def without_template(text: str) -> str:
    depth = 0
    for at, letter in enumerate(text if text.startswith('template <') else ''):
        depth += (letter == '<') - (letter == '>')
        if letter == '>' and depth == 0:
            return text[at + 1:].strip()
    return text


def signature(one: Declaration) -> str:
    """A function as its caller sees it: without what it requires, and without its body."""
    text = re.sub(r'requires ?\((?:[^()]|\([^()]*\))*\) ?|requires [\w:]+<\w+> ', '', without_template(one.text))
    text = re.sub(r'\[\[\w+\]\] |\bconstexpr ', '', re.match(r'(?:\([^()]*\)|[^{;])*', text)[0])
    return re.sub(r'\) const\b', ')', text).strip()


def called(one: Declaration) -> str:
    found = re.search(r'(\w+)\((?:[^()]|\([^()]*\))*\)(?: -> .*)?$', signature(one))
    return found[1] if found else ''


def members(of: Declaration) -> list[Declaration]:
    """The functions of a context that programs may call. Overloads that only refuse a call are none."""
    found = []
    for one in of.members():
        if re.match(r'(?:using|friend|static|explicit|struct|enum)\b|' + of.name + r'\(', one.text):
            continue
        if prose(one.doc).startswith('Refused') or not one.doc and 'bool Fine' in one.text:
            continue
        if not called(one):
            one.wrong(f'this member cannot be read: {one.text}')
        elif one.doc or called(one) not in map(called, found):
            one.explained(called(one))
        found.append(one)
    return found


def listed(all_of: list[Declaration]) -> list[str]:
    """Functions with their comments. An overload without one stands beside the function above it."""
    lines: list[str] = []
    section = ''
    for at, one in enumerate(all_of):
        if not one.doc:
            continue
        if one.section != section:
            section = one.section
            lines += ['', f'### {section.rstrip(".")}', '']
        overloads = [signature(one)]
        for other in all_of[at + 1:]:
            if other.doc or called(other) != called(one):
                break
            overloads.append(signature(other))
        lines += item(', '.join(map(code, overloads)), one.doc)
    return lines


def only(names: list[str]) -> list[str]:
    text = 'Of the members of every hook these exist with `auto& ctx` in these phases alone: ' + ', '.join(names) + '.'
    return wrapped(text) if names else []


def context_page() -> str:
    context, run, step = map(entity, ('Context', 'RunContext', 'StepContext'))
    by_stage: dict[str, list[Declaration]] = {stage: [] for stage in STAGES}
    limited: dict[str, list[str]] = {stage: [] for stage in STAGES}  # members of Context that exist there alone
    for one in members(run):
        asked = re.search(r'requires ?\(((?:[^()]|\([^()]*\))*)\)|constexpr bool here = (.*?);', one.text)
        stage = asked[1] or asked[2] if asked and re.search(r'Phase|R::automatic', asked[0]) else ''
        if stage not in STAGES:
            one.wrong(f'tools/reference.py does not know where {called(one)} exists: {stage}')
            continue
        if prose(one.doc).startswith('See Context'):
            limited[stage].append(code(called(one)))
            continue
        one.section = '' if stage else one.section
        by_stage[stage].append(one)
    constants: dict[str, dict[str, str]] = {}
    rows = []
    for one in phases():
        base = re.search(r': (\w+) \{', one.text)
        own = dict(re.findall(r'(\w+) = (true|false)', one.text))
        constants[one.name] = (constants[base[1]] if base else {}) | own
        shown = ['yes' if constants[one.name][name] == 'true' else '' for name in ('logs', 'trains', 'evaluates')]
        rows.append([code(one.name), *shown, escaped(prose(one.explained()))])
    intro = (
        '`ctx` is the last argument of a hook or a step. `fulgurite::Context& ctx` has the members that do not depend '
        'on the program: such a hook is compiled once. `auto& ctx` has more; which, depends on the phase in which the '
        'hook is called. [hooks.md](hooks.md) names the phase of each hook. A member that a phase does not have is a '
        'compile error that says where it exists.')
    return page(
        'The context: ctx', wrapped(intro),
        ['## Phases', *table(['phase', 'can log', 'may be in a fit', 'evaluates', 'when'], rows)],
        ['## Every hook', '', *article(context.explained()), '', *listed(members(context))],
        *([f'## {STAGES[stage]}', '', *(article(run.explained()) if not stage else []), '', *only(limited[stage]), '',
           *listed(all_of)] for stage, all_of in by_stage.items() if all_of or limited[stage]),
        ['## The training_step of a model with `Manual`', '', *article(step.explained()), '', *listed(members(step))])


# docs/options.md

OPTIONS = {
    'The trainer': ['TrainerOptions'],
    'Devices and strategies': [
        'SingleDevice', 'Captured', 'CaptureOptions', 'Fastest', 'DistributedDataParallel', 'ShardedDataParallel',
        'Pipeline'],
    'Precision': ['Float32', 'Float64', 'Bf16Mixed', 'Bf16True', 'Fp16True', 'Fp16Mixed'],
    'Optimization': ['Manual', 'Automatic', 'ScheduleOptions', 'ToggleOptions'],
    'Logging': ['LogOptions'],
    'Defaults to leave out': [
        'NoDefaults', 'NoProgressBar', 'NoModelSummary', 'NoLogger', 'NoCheckpoints', 'NoResultsTable'],
    'Optimizers': ['AdamOptions', 'AdamWOptions', 'SGDOptions', 'RMSpropOptions', 'AdagradOptions', 'LBFGSOptions'],
    'Loaders and data': [
        'LoaderOptions', 'BatchOptions', 'TensorLoaderOptions', 'GatherOptions', 'BlockOptions', 'BatchingOptions',
        'StreamOptions', 'WorkerOptions', 'MnistOptions', 'DigitsOptions', 'Digits8x8Options', 'ImageFolderOptions',
        'TableOptions', 'WindowOptions', 'CsvOptions', 'TableTypes', 'TextOptions'],
    'Weights and export': ['WeightOptions', 'ExportOptions'],
    'Tuner': ['BatchSizeSearch', 'RateSearch', 'SweepOptions', 'Draws']}
ON_PAGE = sum(OPTIONS.values(), [])
# Strategies and loggers have options of their own in place of these; the layers of a chain have PyTorch's.
ELSEWHERE = ('GroupOptions', 'FolderOptions', 'Conv1dOptions', 'Conv2dOptions', 'BatchNormOptions', 'Pool2dOptions')


class Options:
    """Structs of options as tables, and the types that these name."""

    def __init__(self):
        self.shown: list[Declaration] = []
        self.types: list[Declaration] = []

    def table(self, one: Declaration, beside: list[Declaration] = []) -> list[str]:
        """`beside`: structs with the same options, the nearest of which explains an option without a comment."""
        nearest = sorted(beside, key=lambda other: (other.file != one.file, other.file.parent != one.file.parent))
        said = {(field.name, field.type): field.doc
                for other in reversed(nearest) for field in reversed(fields(other)) if field.doc}
        rows, refused, before = [], [], ''
        for field in fields(one):
            text = prose(field.doc or said.get((field.name, field.type), []))
            before = text = before if text == 'likewise' else text
            if not text:
                field.of.wrong(f'nothing is said of the option {field.name} of {one.name}')
            elif re.match(r'(?:elsewhere|loop)::|MonitorOption$', field.type):
                refused.append([code(field.name), escaped(re.sub('^[Rr]efused: ', '', text))])
            elif not text.startswith('internal'):
                rows.append([code(field.name), code(field.type), code(field.default) or 'required', escaped(text)])
                self.types += [found for word in re.findall(r'\w+', field.type) if (found := entity(word, one))
                               and found not in self.types and not re.search(rf'(?:class|struct) {word} ', one.text)]
        self.shown.append(one)
        return [*table(['option', 'type', 'default', 'meaning'], rows),
                *(['Refused, since it belongs elsewhere:', *table(['option', 'instead'], refused)] if refused else [])]

    def section(self, title: str, names: list[str]) -> list[str]:
        all_of = [entity(name) for name in names]
        lines = [f'## {title}', '']
        short = [one for one in all_of if not fields(one) and len(list(paragraphs(one.doc))) < 2]
        for one in [*short, *(other for other in all_of if other not in short)]:
            if one in short:
                lines += item(code(one.name), one.explained())
                self.shown.append(one)
            else:
                lines += ['', f'### {one.name}', '', header_of(one), '', *article(one.explained()),
                          *self.table(one, all_of)]
        return lines

    def of_types(self) -> list[str]:
        """What the types of options mean, and the values of enumerations."""
        lines = ['## Types of these options', '']
        for one in self.types:
            if one in self.shown or one.name in ON_PAGE:
                continue
            values = enumerators(one) if one.text.startswith('enum') else []
            lines += ['', f'### {one.name}', '', *article(one.explained())]
            if any(said for _, said in values):
                lines += table(['value', 'meaning'], [[code(f'{one.name}::{v}'), escaped(said)] for v, said in values])
            elif values:
                lines += ['', 'Values: ' + ', '.join(code(f'{one.name}::{value}') for value, _ in values) + '.']
        return lines


def options_page() -> str:
    options = Options()
    intro = ('Aggregates: name the options that differ from the defaults, in the order of the tables. The options of '
             'callbacks, loggers and schedules are in [callbacks.md](callbacks.md).')
    parts = [options.section(title, names) for title, names in OPTIONS.items()]
    for one in entities():
        says = re.search(r'PrecisionTraits<Dtype|bool (?:automatic|is_distributed) = (?:true|false)', one.text)
        if says and one.space == 'fulgurite' and one.name not in ON_PAGE:
            one.wrong(f'tools/reference.py has no section for the policy {one.name}')
    return page('Options', wrapped(intro), *parts, options.of_types())


# docs/callbacks.md

def bases(one: Declaration) -> list[Declaration]:
    head = re.search(r' : (.*?) \{', without_template(one.text))
    names = re.findall(r'(\w+)(?:<.*>)?', ' '.join(split(head[1], ','))) if head else []
    return [found for name in names if name != one.name and (found := entity(name, one))]


def is_callback(one: Declaration) -> bool:
    return bool(re.search(r'using Hooks =|names_event_twice =', one.text)) or any(map(is_callback, bases(one)))


def of_rooms(*rooms: str) -> list[Declaration]:
    found = [one for one in entities() if str(one.file.relative_to(INCLUDE)).startswith(rooms)]
    return sorted(found, key=lambda one: one.name.lower())


def example(one: Declaration) -> list[str]:
    """A statement that uses it, after the first code of its comment; none if the comment has a block of code."""
    if any(is_code for is_code, _ in paragraphs(one.doc)):
        return []
    use = re.search(rf'`({one.name}(?:<[^`]*>)?(?:\{{|\()[^`]*)`', prose(one.doc))
    if not use:
        one.wrong(f'no example of {one.name} is in its comment')
        return []
    made = f'auto trainer = make_trainer<Net>(TrainerOptions{{.max_epochs = 10}}, {use[1]});'
    return ['', '```cpp', made if len(made) <= COLUMNS else made.replace('}, ', '},\n    ', 1), '```']


def functions(header: str, *names: str) -> list[str]:
    """Functions of a namespace, each with the comment of its first overload."""
    return [line for name in names for line in item(code(name), next(
        one for one in of_header(INCLUDE / header) if one.doc and f' {name}(' in one.text).doc)]


def callbacks_page() -> str:
    options = Options()

    def tables(one: Declaration) -> list[str]:
        words = [re.findall(r'\b(\w+Options)\b', of.text) for of in [one, *bases(one)]]
        found = [entity(word, one) for word in dict.fromkeys(next(filter(None, words), []))
                 if word not in (*ON_PAGE, *ELSEWHERE)]
        return [line for other in found if other not in options.shown for line in [
            '', *wrapped(f'{code(other.name)}: ' + escaped(re.sub(r'^Options of \w+: ', '', prose(other.explained())))),
            *options.table(other)]]

    def parts(title: str, all_of: list[Declaration], above: list[str] = []) -> list[list[str]]:
        index = [[f'[{one.name}](#{one.name.lower()})', escaped(first_sentence(one.explained()))] for one in all_of]
        return [[f'## {title}', '', *above, *table(['name', 'what it does'], index)]] + [
            [f'### {one.name}', '', header_of(one), '', *article(one.doc), *(example(one) if not above else []),
             *(options.table(one) if above else []), *tables(one)] for one in all_of]

    callbacks = [one for one in of_rooms('callback', 'tuner', 'torch/profile', 'defaults')
                 if one.space == 'fulgurite' and is_callback(one)]
    loggers = [one for one in of_rooms('logger') if one.space == 'fulgurite' and one.name.endswith('Logger')]
    schedules = [one for one in of_rooms('schedule') if not one.text.startswith('template <Schedule')
                 and re.search(r'operator\(\)\(long|void observe\(', one.text)]
    above = [*article(entity('Schedule').explained()), '', *functions('loop/scheduler.hpp', 'scheduled'),
             *functions('schedule/schedule.hpp', 'then', 'operator*', 'rate_only')]
    sections = [*parts('Callbacks', callbacks), *parts('Loggers', loggers), *parts('Schedules', schedules, above)]
    for one in entities():
        if one.name.endswith('Options') and one not in options.shown and one.name not in (*ON_PAGE, *ELSEWHERE):
            one.wrong(f'tools/reference.py has no section for {one.name}')
    intro = ('What watches, writes and prints: arguments of `make_trainer`, in any order. Yours are structs with some '
             'of the functions in [hooks.md](hooks.md). [logging.md](logging.md) compares the loggers; '
             '[from_lightning.md](from_lightning.md#defaults) says which of these a trainer has by default.')
    return page('Callbacks, loggers and schedules', wrapped(intro), *sections, options.of_types())


def pages() -> dict[pathlib.Path, str]:
    docs = ROOT / 'docs'
    return {docs / 'hooks.md': hooks_page(), docs / 'context.md': context_page(),
            docs / 'options.md': options_page(), docs / 'callbacks.md': callbacks_page()}


if __name__ == '__main__':
    if sys.argv[1:] != ['write']:
        sys.exit(__doc__)
    for path, text in pages().items():
        path.write_text(text)
    sys.exit('\n'.join(mistakes) or 0)
