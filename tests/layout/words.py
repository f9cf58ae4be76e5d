"""Lines, words and form: what a reader sees of the sources; prints TAP, a line per rule.

    words.py BUILD     clang-tidy takes its flags from that build folder, where clang made it

Lines have at most 120 columns. No text that is for users, and no header, names a code of a document that is not in this
repository. Rooms in plain words (FIELD) and pages have no word of a private dialect. What docs/semantics.md names is
there, and so is each heading of it that a header names. clang-format 19 leaves every C++ file as it is, clang-tidy 19
has nothing to say of a few rooms; both come with tools/dev setup, and are skipped where they are not installed."""

import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

COLUMNS = 120
CXX = ('*.cpp', '*.hpp', '*.ipp')
SOURCES = ('include', 'src', 'tests', 'examples', 'benchmarks')
# Lines that may be longer: (file pattern, line pattern). Rows of a table, and what a compiler must say, stay whole.
LONG = [('tests/nocompile/*.cpp', r'// refused: '), ('*.md', r'\|'), ('*.md', r'.*\]\([^)]*\)'),
        ('docs/refusals.md', r' {4}'),
        ('*.py', r'\s*(\+ |return |yield )*f?[\'"]'), ('tools/*.py', r'  auto trainer = '), ('*.py', r'    (cost|\{)')]
# D4, C14, W3, P5, S51: numbers of lists that a reader does not have.
CODE = re.compile(r'(?<!")\b[DCWPS][0-9]{1,3}\b|\b[Ff]inding [0-9]+|\b[Ii]ssue [0-9]+')
PLAIN = ['include/fulgurite/**/*.hpp', 'include/fulgurite/**/*.ipp', 'README.md', 'CONTRIBUTING.md',
         *(f'docs/{page}.md' for page in ('semantics', 'words', 'loaders', 'capture', 'building', 'from_lightning'))]
# Rooms whose comments and texts keep to the field's words, and words of a private dialect that they must not have.
FIELD = ['torch', 'distributed', 'tuner', 'cli', 'defaults', 'policy', 'concept', 'schedule', 'report', 'metric',
         'checkpoint', 'hook', 'callback', 'logger', 'core', 'data', 'diagnose', 'loop']
DIALECT = re.compile(r'\b(anew|at hand|go(es|ne|ing)? on|went on|hears?|heard|tells|tried out|tries \w+ out|puts? back|'
                     r'anybody|nobody|somebody|told|sisters|gravest?|graver|at its place)\b')
SAID = re.compile(r'//.*|"(?:[^"\\\n]|\\.)*"')
QUOTED = re.compile(r'`[^`]*`|"[^"]*"')  # in a page: code, and names of tests
KEY = re.compile(r'\("\w+",')  # a name that files have, as archive("name", value) writes it: files must stay readable
# Rooms that clang-tidy reads, a unit each: all that need no LibTorch and take it some seconds.
TIDY = [['schedule', 'checkpoint'], ['data'], ['logger']]


def name(file: pathlib.Path) -> str:
    return file.relative_to(flags.ROOT).as_posix()


def cxx() -> list[pathlib.Path]:
    return sorted(file for folder in SOURCES for kind in CXX for file in (flags.ROOT / folder).rglob(kind))


def excused(file: str, line: str) -> bool:
    return any(fnmatch.fnmatch(file, where) and re.match(what, line) for where, what in LONG)


def longer(files: list[pathlib.Path]):
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if len(line) > COLUMNS and not excused(name(file), line):
                yield f'{name(file)}:{number} has {len(line)} columns, {COLUMNS} at most: {line.strip()[:80]} ...'


def long_code():
    yield from longer(cxx())


def long_text():
    yield from longer(sorted([*flags.ROOT.glob('*.md'), *(flags.ROOT / 'docs').rglob('*.md')]))


def long_scripts():
    folders = [flags.ROOT / folder for folder in ('tests', 'tools', 'benchmarks')]
    kinds = ('*.py', 'meson.build')
    yield from longer(sorted(file for folder in folders for kind in kinds for file in folder.rglob(kind)))


def codes():
    for pattern in PLAIN:
        for file in sorted(flags.ROOT.glob(pattern)):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                for found in CODE.findall(line):
                    yield f'{name(file)}:{number} says {found}, a number of a foreign list: say what it means'


def dialect():
    for room in FIELD:
        for file in sorted((flags.INCLUDE / 'fulgurite' / room).rglob('*.[hi]pp')):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                for word in (found[0] for said in SAID.findall(KEY.sub("(", line)) for found in DIALECT.finditer(said)):
                    yield f'{name(file)}:{number} says {word}, a word of a private dialect: take the field\'s own word'
    for file in sorted([*flags.ROOT.glob('*.md'), *(flags.ROOT / 'docs').rglob('*.md')]):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for found in DIALECT.finditer(QUOTED.sub('', line)):
                yield f'{name(file)}:{number} says {found[0]}, a word of a private dialect: take the field\'s own word'


def semantics():
    """Tests that docs/semantics.md names, and headings of it that headers name."""
    text = (flags.ROOT / 'docs' / 'semantics.md').read_text()
    for test in re.findall(r'`(\w+/\w+\.cpp)`', text):
        if not (flags.ROOT / 'tests' / test).exists():
            yield f'docs/semantics.md names tests/{test}, which is not there'
    for header in re.findall(r'`(\w+/\w+\.hpp)`', text):
        if not (flags.INCLUDE / 'fulgurite' / header).exists():
            yield f'docs/semantics.md names {header}, which is not there'
    headings = re.findall(r'^## \d+\. (.*)$', text, re.M)
    for file in flags.headers() + flags.body_files():
        comments = re.sub(r'\n\s*//+', '', file.read_text())
        for heading in re.findall(r'docs/semantics\.md, ([A-Z][\w ]*)', comments):
            if not any(heading.strip().startswith(known) for known in headings):
                yield f'{name(file)} refers to docs/semantics.md, {heading}: there are {", ".join(headings)}'


def program(tool: str) -> str | None:
    """A clang tool of version 19: from .venv, or from the PATH."""
    venv = flags.ROOT / '.venv' / 'bin' / tool
    for candidate in (str(venv), f'{tool}-19', tool):
        found = shutil.which(candidate)
        if found and re.search(r'\b19\.\d', subprocess.run(
            [found, '--version'], capture_output=True, text=True).stdout):
            return found
    return None


def unformatted(tool: str):
    files = [name(file) for file in cxx()]
    done = subprocess.run([tool, '--dry-run', '--Werror', *files], cwd=flags.ROOT, capture_output=True, text=True)
    wrong = sorted(set(re.findall(r'^([^\s:]+):\d+:\d+: error', done.stderr, re.M)))
    yield from (f'{file} is not as clang-format 19 has it: clang-format -i {file}' for file in wrong)
    if done.returncode != 0 and not wrong:
        yield done.stderr


def untidy(tool: str, how):
    words, folder = how
    words = [word for word in words if not word.startswith('-fdiagnostics')]
    own = subprocess.run([words[0], '-print-resource-dir'], capture_output=True, text=True).stdout.strip()

    def read(rooms: list[str]) -> list[str]:
        with tempfile.TemporaryDirectory() as temporary:
            unit = pathlib.Path(temporary) / 'rooms.cpp'
            headers = [header for header in flags.headers() if flags.part(header) in rooms]
            unit.write_text(
    ''.join(
        f'#include <{header.relative_to(flags.INCLUDE).as_posix()}>\n' for header in headers))
            only = f'--header-filter=include/fulgurite/({"|".join(rooms)})/'
            done = subprocess.run(
                [tool, '--quiet', f'--config-file={flags.ROOT}/.clang-tidy', only, str(unit),
                 '--', *words[1:],
                 f'-resource-dir={own}'],
                cwd=folder, capture_output=True, text=True)
        told = re.findall(r'^.*(?:warning|error): .*$', done.stdout, re.M)
        return told if told or done.returncode == 0 else [done.stderr]

    for told in flags.each(read, TIDY):
        yield from told


def tools() -> list[tuple[str, list[str]]]:
    results = []
    form, tidy = program('clang-format'), program('clang-tidy')
    title = 'clang-format 19 leaves every C++ file as it is'
    results.append((title, list(unformatted(form))) if form else (
        f'{title} # SKIP clang-format 19 is not installed', []))
    title = f'clang-tidy 19 has nothing to say of {", ".join(room for rooms in TIDY for room in rooms)}'
    how = flags.command(pathlib.Path(sys.argv[1]).resolve(), 'bare_one.cpp') if len(sys.argv) > 1 else None
    if tidy is None:
        results.append((f'{title} # SKIP clang-tidy 19 is not installed', []))
    elif how is None or 'clang' not in os.path.basename(how[0][0]):
        results.append((f'{title} # SKIP it takes the flags of a build folder made with clang', []))
    else:
        results.append((title, list(untidy(tidy, how))))
    return results


RULES = {
    f'no line of C++ is longer than {COLUMNS} columns': long_code,
    'no line of README.md and docs/ is, outside of tables and links': long_text,
    'no line of a Python script, or of a build file of tests, is, unless it is one literal': long_scripts,
    'no header and no page for users names a number of a foreign list': codes,
    'no comment and no text of a room in plain words, and no page, has a word of a private dialect': dialect,
    'what docs/semantics.md names is there, and what headers name of it': semantics,
}
flags.tap([(rule, list(check())) for rule, check in RULES.items()] + tools())
