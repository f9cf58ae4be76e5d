"""The site of the documentation: the guide, the pages, and the reference from the comments of the headers.

    docs.py FOLDER    builds it with Doxygen: FOLDER/index.html is where to begin; a warning is an error

docs/Doxyfile has the settings, docs/reference.dox the topics. Doxygen reads a copy of the pages and the headers: of the
headers what is public, by the rule of tests/layout/documented.py; of the pages all."""

import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.sax.saxutils

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'tests' / 'layout')]
import documented  # noqa: E402
import flags  # noqa: E402

# The release that tools/dev installs: what Doxygen warns of, and how it lays out a page, depends on it.
OLDEST = (1, 18)
CLASS = re.compile(r'(?:class|struct) (\w+)')
DERIVED = re.compile(r'^(?:class|struct) (\w+)\b[^{;]*? : ([^{;]*)\{', re.M)
CONDITION = re.compile(r'#(?:if|el|endif)')
# A class that is only named ahead, whose place is elsewhere; with a comment, it is left to specializations.
FORWARD = re.compile(r'((?:^///.*\n)*)((?:^template <.*>\n)?^(?:class|struct) \w+;.*\n)', re.M)
# Macros without a comment of their own, and calls of macros in the place of declarations.
MACRO = re.compile(r'((?:^///.*\n)*)(?:^#define .*(?:(?<=\\)\n.*)*|^#undef .*|'
                   r'^FULGURITE_\w+\((?:.*,\n)*.*\);?(?: *//.*)?)$', re.M)
# A member that is defined outside of its class, where it has its comment.
OUTSIDE = re.compile(r'^(?:template <.*\n(?: +\S.*\n)*)*(?!(?:using|namespace|static_assert|extern)\b)(?=[\w\[])'
                     r'[^\n(;{=]*?\b\w+(?:<[^(\n]*>)?::~?\w+(?:=|\(\))?\((?:.*[;}]$|.*\n(?:(?!\}).*\n)*\}.*$)', re.M)
# The functions of a trainer that was not refused stand in a specialization, beside others that only refuse.
ACCEPTED = {'class TrainerBody {': 'class RefusedTrainerBody {',
            'class TrainerBody<true, M, S, P, O, Cs...>': 'class TrainerBody',
            f',\n{45 * " "}public judge::OtherCalls<M> {{': ' {\n', 'using Other::': '// '}
# A default argument that no program names: what the compiler has to say of a call.
VERDICT = re.compile(r',\s*class Verdict = typename judge::VerdictOnCall<.*?>>::type', re.S)
HEADING = re.compile(r'(#+) (.*)')
LINK = re.compile(r'(?<!!)\[([^\]]*)\]\((?![a-z]+:)([\w./-]*)(?:#([\w-]+))?\)')


def blank(found: re.Match) -> str:
    return '\n' * found[0].count('\n')


def plain(parents: str) -> str:
    """A list of base classes without the arguments of templates: of an instance of a template Doxygen shows one
    overload of each name."""
    while (shorter := re.sub(r'<[^<>]*>', blank, parents)) != parents:
        parents = shorter
    return parents


@functools.cache
def bases() -> set[str]:
    """Names of internal classes that public ones derive from: their public members are members of a public class."""
    derived, internal, public = {}, set(), set()
    for header in flags.headers():
        text = header.read_text()
        for name, parents in DERIVED.findall(text):
            derived.setdefault(name, set()).update(re.findall(r'(\w+)\s*(?:,|\.\.\.|$)', plain(parents)))
        for one, name in documented.entities(header):
            (public if one.space in documented.spaces(header) else internal).add(name)
    found, to_read = set(), public
    while to_read:
        to_read = set().union(*(derived.get(name, set()) for name in to_read)) & internal - found
        found |= to_read
    return found


def topic(header: pathlib.Path) -> str:
    """The group of docs/reference.dox that a header belongs to: its folder, or what a program includes."""
    folders = header.relative_to(flags.INCLUDE / 'fulgurite').parts[:-1]
    return '_'.join(['topic', *(folders or ['programs'])])


# A line that belongs to the declaration below it.
ABOVE = re.compile(r'template\b|  requires|    |#')


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


def shown(header: pathlib.Path):
    """The lines of a header that are public, each in its place: of an internal namespace only the classes that public
    ones derive from, and of these no protected member. What a public namespace has is in the topic of the header."""
    public, outer, kept, above = documented.spaces(header), '', False, []
    for line, space in places(header.read_text().splitlines()):
        if space != outer or space in public or not space:
            yield from ('' for _ in above)
            above = []
        if space != outer:
            opens = len(space) > len(outer)
            if opens and space in public:
                line += f' /** @topic{{{topic(header)}}} */'
            if not opens and outer in public:
                line = f'/** @}} */ {line}'
            outer = space
            yield line
        elif space in public or (space and CONDITION.match(line)):
            yield line
        elif not space:
            yield ''
        elif kept:
            kept = not line.startswith('}')
            yield line.replace(' protected:', ' private:')
        elif (name := CLASS.match(line)) and name[1] in bases() and not line.endswith(';'):
            kept = True
            yield from above
            above = []
            yield line
        else:
            above += [line]
            if not line.startswith('///') and not ABOVE.match(line):
                yield from ('' for _ in above)
                above = []
    yield from ('' for _ in above)


def header_text(header: pathlib.Path) -> str:
    """A header as Doxygen reads it, line by line; its first comment speaks of the file."""
    written, text = header.read_text().splitlines(), '\n'.join([*shown(header), ''])
    end = written.index('')
    about = ['/** @file', *(line.removeprefix('//') for line in written[1:end]), '*/']
    text = '\n'.join(about + text.split('\n')[end + 1 :])
    for known, read in ACCEPTED.items():
        text = text.replace(known, read)
    text = DERIVED.sub(lambda found: found[0].replace(found[2], plain(found[2])), text)
    text = OUTSIDE.sub(blank, VERDICT.sub(blank, text))
    for pattern in (FORWARD, MACRO):
        text = pattern.sub(lambda found: found[0] if found[1] else blank(found), text)
    return text


def label(page: pathlib.Path) -> str:
    """What Doxygen calls a page."""
    name = page.relative_to(ROOT).with_suffix('').as_posix()
    return 'index' if name == 'README' else name.replace('/', '_')


def place(page: pathlib.Path, heading: str) -> str:
    """What Doxygen calls a heading of a page: by itself it would call those of two pages by one name. `heading`: as
    links name it, which is GitHub's way."""
    return f'{label(page)}-{heading}'


def headings(lines: list[str]):
    """Each heading of a page: its number from 0, its level, its text, and how links name it."""
    code, seen = False, collections.Counter()
    for at, line in enumerate(lines):
        code ^= line.startswith('```')
        if not code and (found := HEADING.fullmatch(line)):
            name = re.sub(r'[^\w\- ]', '', re.sub(r'\]\([^)]*\)', '', found[2]).lower()).replace(' ', '-')
            yield at, found[1], found[2], f'{name}-{seen[name]}' if seen[name] else name
            seen[name] += 1


def page_text(page: pathlib.Path, site: pathlib.Path) -> str:
    """A page as Doxygen reads it: links lead to pages and headings by the names that these have in the site, a link to
    a folder of headers to its topic, and one to another file to a copy of it."""

    def link(found: re.Match) -> str:
        text, path, heading = found.groups()
        target = (page.parent / path).resolve() if path else page
        if target.is_dir() and flags.INCLUDE in target.parents:
            return f'[{text}](@ref {topic(target / "all")})'
        if not target.is_file():
            return found[0]
        if target.suffix == '.md':
            return f'[{text}](@ref {place(target, heading) if heading else label(target)})'
        name = target.relative_to(ROOT).as_posix()
        if target.suffix == '.hpp':
            return f'[{text}](@ref {name})'
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, site / name)
        return f'<a href="{name}">{text}</a>'

    lines = page.read_text().splitlines()
    for at, level, text, name in headings(lines):
        text = re.sub(r'^(\d+\.) ', '\\1\N{NO-BREAK SPACE}', text)  # with a space Doxygen takes it for a list
        if at > 0 or label(page) != 'index':
            lines[at] = f'{level} {text} {{#{label(page) if level == "#" else place(page, name)}}}'
    text = LINK.sub(link, '\n'.join([*lines, '']))
    text = re.sub(r'(!\[[^\]]*\]\()(?:[\w.-]+/)+', r'\1', text)  # Doxygen finds a picture by its name
    # Doxygen takes a # before a word for a link. It fetches mermaid, which draws, from a network.
    return text.replace('#include &lt;', r'\#include &lt;').replace('```mermaid', '```text')


def pages(index: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """The pages of a folder in the order in which an index names them; those that it does not name come last."""
    links = re.findall(r'\]\(([\w/]+\.md)', index.read_text()) if index.exists() else []
    here = sorted(folder.glob('*.md'))
    return list(dict.fromkeys([*(page for link in links if (page := index.parent / link) in here), *here]))


def groups() -> dict[str, list[pathlib.Path]]:
    """The pages by their place in the navigation."""
    docs = ROOT / 'docs'
    contents = docs / 'guide' / 'README.md'
    return {'Guide': sorted(pages(contents, docs / 'guide'), key=lambda page: page != contents),
            'Pages': [*pages(ROOT / 'README.md', docs), ROOT / 'examples' / 'README.md', ROOT / 'CONTRIBUTING.md',
                      ROOT / 'CHANGELOG.md']}


def tab(page: pathlib.Path) -> str:
    title = re.search(r'^# (.*)', page.read_text(), re.M)[1].replace('`', '')
    return f'<tab type="user" url="@ref {label(page)}" title={xml.sax.saxutils.quoteattr(title)}/>'


def layout(default: str) -> str:
    """Doxygen's layout with a navigation of the guide, the pages and the topics. Classes, concepts and topics begin
    with the whole of their comment."""
    tabs = ['<tab type="mainpage" visible="yes" title="Fulgurite"/>']
    for title, group in groups().items():
        if group:
            tabs += [f'<tab type="usergroup" title="{title}">', *map(tab, group), '</tab>']
    tabs += ['<tab type="pages" visible="no"/>', '<tab type="topics" visible="yes" title="Reference"/>',
             '<tab type="concepts" visible="yes" title="All concepts"/>',
             '<tab type="classindex" visible="yes" title="All classes"/>',
             '<tab type="filelist" visible="yes" title="All headers"/>']
    begin, _, rest = default.partition('<navindex>')
    text = '\n'.join([begin, '<navindex>', *tabs, '</navindex>' + rest.partition('</navindex>')[2]])
    whole = re.compile(r'(<(?:class|concept|group)>\s*<briefdescription visible=)"yes"(/>\s*<(?:includes|groupgraph) '
                       r'[^>]*>)(.*?)(<detaileddescription [^>]*) title=""/>', re.S)
    return whole.sub(r'\1"no"\2\4 title="Description"/>\3', text)


def doxygen() -> tuple[str, str]:
    """The program to call, and empty; or why there is none."""
    found = shutil.which('doxygen', path=f'{ROOT}/.venv/bin:{os.environ["PATH"]}')
    if not found:
        return '', 'Doxygen is not installed'
    version = subprocess.run([found, '--version'], capture_output=True, text=True, check=True).stdout.split()[0]
    if tuple(map(int, version.split('.')[:2])) < OLDEST:
        return '', f'Doxygen {version} is older than {".".join(map(str, OLDEST))}'
    return found, ''


def is_ours(site: pathlib.Path) -> bool:
    index = site / 'index.html'
    return index.is_file() and '<title>Fulgurite' in index.read_text()


def build(site: pathlib.Path) -> list[str]:
    """Builds the site in a folder, in the place of one that is there, and returns Doxygen's warnings. Ends the program,
    and leaves the folder as it is, if the folder has other files or if Doxygen fails."""
    program, why = doxygen()
    if why:
        sys.exit(f'{why}: tools/dev docs installs it')
    if site.exists() and any(site.iterdir()) and not is_ours(site):
        sys.exit(f'{site} has files and is no site that this has built: name another folder, or remove that one')
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        made = copy / 'site'
        shutil.copytree(ROOT / 'docs', copy / 'docs')
        texts = {page: page_text(page, made) for page in [ROOT / 'README.md', *sum(groups().values(), [])]}
        texts |= {header: header_text(header) for header in flags.headers()}
        for path, text in texts.items():
            read = copy / path.relative_to(ROOT)
            read.parent.mkdir(parents=True, exist_ok=True)
            read.write_text(text)
        subprocess.run([program, '-q', '-l', copy / 'layout.xml'], check=True)
        (copy / 'layout.xml').write_text(layout((copy / 'layout.xml').read_text()))
        settings = (copy / 'docs' / 'Doxyfile').read_text()
        settings += f'OUTPUT_DIRECTORY = "{copy}"\nHTML_OUTPUT = "{made.name}"\n'
        run = subprocess.run([program, '-'], cwd=copy, input=settings, text=True, stderr=subprocess.PIPE)
        said = run.stderr.replace(f'{copy}/', '')
        if run.returncode != 0:
            sys.exit(f'{said}{program} ended with {run.returncode}')
        script = made / 'navtree.js'  # in the outline of a page Doxygen 1.18 writes names like "operator&#x3D;"
        script.write_text(script.read_text().replace('textContent = escapeHtml(text)', 'textContent = text'))
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(made, site)
        return said.splitlines()


if __name__ == '__main__':
    wrong = build(pathlib.Path(sys.argv[1]).resolve())
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(bool(wrong))
