"""The programs of docs/guide and docs/from_*.md compile, run and print what is shown; prints TAP, one test a page.

    guide.py BUILD TARGET [PAGE.md...]             as the program TARGET of a build folder is compiled and linked
    GUIDE_COMPILER=COMMAND guide.py [PAGE.md...]   with `COMMAND SOURCE.cpp -o PROGRAM`

The ```cpp blocks of a page, in their order, are one program up to the block that closes `int main(`, by a brace that
begins a line or ends the same one; then the next program begins. A program that includes nothing gets fulgurite.hpp.
The programs of a page run in their order in one folder, which is empty at first, and must return 0. A comment in the
line before a block says what else it is:

    <!-- file: NAME -->         any language: written to NAME in that folder before the programs run, and beside their
                                sources, which may include it
    <!-- run: ARGUMENTS -->     the arguments of the program that ends in this block
    <!-- prints -->             ```text: its lines occur in this order in the output of the program before; `...` stands
                                for any characters, in a line of its own for any lines
    <!-- refused: IDENTIFIER --> in place of what is left of the program (or, behind a program, of its block with main)
                                it does not compile, and the first error has this identifier; a block that declares
                                neither a struct nor main stands in a function
    <!-- shown -->              only shown
    <!-- from: HEADER -->       only shown, and its lines stand so in that file of the repository"""

import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

DOCS = flags.ROOT / 'docs'
WHOLE = '#include <fulgurite/fulgurite.hpp>'
BLOCK = re.compile(r'^((?:<!-- [^\n]* -->\n)*)```(\w+)\n(.*?)^```$', re.S | re.M)
MAIN = re.compile(r'^int main\([^\n]*\}$|^int main\(.*?^\}', re.S | re.M)
MARKS = {'file', 'run', 'prints', 'refused', 'shown', 'from'}
SECONDS = 120  # that a program may take
# Behind each program, so that lines of stdout and stderr come in the order in which they are written.
BY_LINE = """
#include <cstdio>
[[maybe_unused]] static int const written_by_line = std::setvbuf(stdout, nullptr, _IOLBF, 0);
"""


class Block(typing.NamedTuple):
    line: int  # of the page, where its text begins
    language: str
    text: str
    marks: dict[str, str]

    def code(self, page: pathlib.Path) -> str:
        """With the page's line, which compilers then name."""
        return f'#line {self.line} "{page.name}"\n{self.text}'

    @property
    def has_main(self) -> bool:
        return 'int main(' in self.text


def blocks(page: pathlib.Path) -> list[Block]:
    text, found = page.read_text(), []
    for block in BLOCK.finditer(text):
        marks = dict(re.findall(r'<!-- (\w+)(?:: (.*))? -->', block[1]))
        found.append(Block(text.count('\n', 0, block.start(3)) + 1, block[2], block[3], marks))
    return found


class Compiler:
    """Compiles and links one program: as a target of a build folder, or with a command that is given."""

    def __init__(self, build: pathlib.Path | None, name: str = ''):
        self.folder = build or pathlib.Path.cwd()
        if build is None:
            self.own = shlex.split(os.environ['GUIDE_COMPILER'])
            return
        self.own = None
        targets = json.loads((build / 'meson-info' / 'intro-targets.json').read_text())
        target = next(target for target in targets if target['name'] == name)
        sources = next(entry for entry in target['target_sources'] if 'compiler' in entry)
        links = next(entry for entry in target['target_sources'] if 'linker' in entry)
        self.whole = [*sources['compiler'], *sources['parameters'], '-fdiagnostics-color=never']
        at = next(at for at, word in enumerate(self.whole) if word in ('-include-pch', '-include'))
        # A program that names its headers is compiled without the others, so that it is seen where one is missing.
        self.bare = self.whole[:at] + self.whole[at + 2:]
        self.links = links['linker'], links['parameters']

    def __call__(self, source: pathlib.Path, program: pathlib.Path) -> str | None:
        """What the compiler printed, if it failed."""
        if self.own:
            return self.failed([*self.own, source, '-o', program])
        text = source.read_text()
        own = [source.parent / name for name in re.findall(r'^#include "(.*)"', text, re.M)]
        whole = any(WHOLE in part for part in [text, *(file.read_text() for file in own)])
        compile, made = self.whole if whole else self.bare, program.with_suffix('.o')
        linker, links = self.links
        return self.failed([*compile, '-c', source, '-o', made]) or self.failed([*linker, made, '-o', program, *links])

    def failed(self, words: list) -> str | None:
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        return (done.stderr or f'{words[0]} returned {done.returncode}') if done.returncode else None


def unmatched(shown: str, lines: list[str]) -> str | None:
    """The first line of `shown` that does not follow in `lines`, from which those that do are taken."""
    for line in shown.splitlines():
        pattern = re.compile('.*'.join(re.escape(part) for part in line.rstrip().split('...')))
        at = next((at for at, printed in enumerate(lines) if pattern.fullmatch(printed.rstrip())), None)
        if at is None:
            return line
        del lines[: at + (line.strip() != '...')]
    return None


def unindented(text: str) -> str:
    return '\n'.join(['', *(line.strip() for line in text.splitlines()), ''])


class Page:
    """Runs a page from its first block to its last; `complaints` has what does not hold."""

    def __init__(self, page: pathlib.Path, compiler: Compiler, work: pathlib.Path, folder: pathlib.Path):
        self.page, self.compiler, self.work, self.folder = page, compiler, work, folder
        self.open: list[Block] = []  # of the program that has no main yet
        self.last: list[Block] = []  # of the program before
        self.output: list[str] | None = None  # of the program before, what no block has shown yet
        self.complaints: list[str] = []

    def check(self) -> list[str]:
        found = blocks(self.page)
        if sum(line.startswith('```') for line in self.page.read_text().splitlines()) != 2 * len(found):
            self.complain(1, 'has a block without a language, or one that does not end')
        for block in found:
            if 'file' in block.marks:
                for place in (self.folder, self.work):
                    (place / block.marks['file']).write_text(block.text)
        for block in found:
            self.step(block)
        if self.open:
            self.complain(self.open[0].line, 'a program begins here that has no main')
        return self.complaints

    def complain(self, line: int, what: str):
        self.complaints.append(f'{self.page.name}:{line} {what}')

    def step(self, block: Block):
        marks = block.marks
        if unknown := marks.keys() - MARKS:
            self.complain(block.line, f'no mark is called {", ".join(unknown)}; there are {", ".join(sorted(MARKS))}')
        elif 'from' in marks:
            if unindented(block.text) not in unindented((flags.ROOT / marks['from']).read_text()):
                self.complain(block.line, f'does not stand so in {marks["from"]}')
        elif 'prints' in marks:
            self.prints(block)
        elif 'refused' in marks:
            self.refused(block, marks['refused'])
        elif block.language == 'cpp' and not marks.keys() & {'file', 'shown'}:
            self.open.append(block)
            if MAIN.search(''.join(part.text for part in self.open)):
                self.program()

    def prints(self, block: Block):
        if self.output is None:
            self.complain(block.line, 'shows the output of no program')
            return
        rest = '\n'.join(self.output)
        if line := unmatched(block.text, self.output):
            self.complain(block.line, f'this line is not printed: {line}\nbut:\n{rest}')

    def source(self, name: str, parts: list[str]) -> pathlib.Path:
        text = ''.join(parts)
        file = self.work / f'{name}.cpp'
        file.write_text(text if '#include' in text.removesuffix(BY_LINE) else f'{WHOLE}\n{text}')
        return file

    def refused(self, block: Block, identifier: str):
        before = self.open or list(itertools.takewhile(lambda part: not part.has_main, self.last))
        code = block.code(self.page)
        if not block.has_main and not re.search(r'^struct ', block.text, re.M):
            code = f'void refused() {{\n{code}}}\n'
        code += '' if block.has_main else 'int main() {}\n'
        source = self.source(f'refused_{block.line}', [*(part.code(self.page) for part in before), code])
        printed = self.compiler(source, source.with_suffix(''))
        errors = [line for line in (printed or '').splitlines() if 'error:' in line]
        if printed is None:
            self.complain(block.line, f'compiles, and is not refused as {identifier}')
        elif not errors or f'[{identifier}]' not in errors[0]:
            self.complain(block.line, f'the first error is not {identifier} but:\n{errors[0] if errors else printed}')

    def program(self):
        self.last, self.open, self.output = self.open, [], None
        block = self.last[-1]
        source = self.source(f'program_{block.line}', [*(part.code(self.page) for part in self.last), BY_LINE])
        if printed := self.compiler(source, source.with_suffix('')):
            if re.search(r'fatal error: .*(CLI/CLI.hpp|toml[+][+]/toml.h)', printed):
                print(f'# {self.page.name}:{block.line} is left out: what a command line needs is not installed')
                return
            self.complain(block.line, 'does not compile:\n' + '\n'.join(printed.splitlines()[:40]))
            return
        words = [source.with_suffix(''), *shlex.split(block.marks.get('run', ''))]
        environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'OMP_WAIT_POLICY': 'passive', 'LANG': 'C.UTF-8'}
        try:
            done = subprocess.run(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.complain(block.line, f'runs for more than {SECONDS} seconds')
            return
        self.output = done.stdout.splitlines()
        if done.returncode:
            self.complain(block.line, f'the program returned {done.returncode} and printed:\n{done.stdout}')


def main() -> None:
    words, build = [pathlib.Path(word).resolve() for word in sys.argv[1:]], None
    if 'GUIDE_COMPILER' in os.environ:
        compiler = Compiler(None)
    elif len(words) < 2:
        sys.exit(__doc__)
    else:
        build, target, *words = words
        compiler = Compiler(build, target.name)

    def work(page: pathlib.Path) -> tuple[str, list[str]]:
        with tempfile.TemporaryDirectory(prefix='fulgurite-guide-') as temporary:
            folder = pathlib.Path(temporary).resolve() / 'run'
            # In the build folder, so that ccache knows the source again.
            sources = (build / 'tests' / 'recipes' / 'guide' if build else folder.parent) / page.stem
            for place in (folder, sources):
                place.mkdir(parents=True, exist_ok=True)
            title = f'the programs of {page.name} compile and run, and print what it shows'
            return title, Page(page, compiler, sources, folder).check()

    pages = words or [*sorted(DOCS.glob('guide/*.md')), *sorted(DOCS.glob('from_*.md'))]
    flags.tap(flags.each(work, pages, most=2))  # each compiles a unit with LibTorch


main()
