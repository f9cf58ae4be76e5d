"""The site that tools/dev docs builds: Doxygen has nothing to warn of, every link leads somewhere, the search finds
every public entity, and in a browser, too; prints TAP.

    site.py [FOLDER]    builds it in FOLDER, which stays, or in a temporary one

Skipped where Doxygen is not installed (tools/dev docs installs it), and the browser's part without Chromium or Chrome
(tools/dev docs --check installs Chromium)."""

import html
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'tests' / 'layout'), str(ROOT / 'tools')]
import documented  # noqa: E402
import flags  # noqa: E402

import docs as builder  # noqa: E402

# What a reader types, and what the first results must have among them.
SEARCHED = {'ModelCheckpoint': 'classfulgurite_1_1ModelCheckpoint.html', 'make_train': 'make_trainer'}


class Page(html.parser.HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, file: pathlib.Path):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ('id', 'name'):
                self.anchors.add(value)
            elif name in ('href', 'src') and value:
                self.links.add(value)


def dead_links(site: pathlib.Path):
    """Links of pages, of the navigation and of the search that lead nowhere."""
    pages = {file.name: Page(file) for file in sorted(site.glob('*.html'))}
    pages.pop('doxygen_crawl.html')  # what search engines begin with: no reader sees it, and its anchors are others
    found = {(name, link) for name, page in pages.items() for link in page.links}
    for script in site.glob('nav*.js'):
        found |= {(script.name, link) for link in re.findall(r'"([\w.-]+\.html(?:#[^"]*)?)"', script.read_text())}
    for script in site.glob('search/*.js'):
        found |= {(script.name, link) for link in re.findall(r"'\.\./([^']+)'", script.read_text())}
    for name, link in sorted(found):
        target = urllib.parse.urlsplit(html.unescape(link))
        if target.scheme:
            continue
        path, anchor = urllib.parse.unquote(target.path) or name, urllib.parse.unquote(target.fragment)
        if not (site / path).is_file():
            yield f'{name} links to {path}, which is not there'
        elif anchor and path in pages and anchor not in pages[path].anchors:
            yield f'{name} links to {path}#{anchor}, which has no such place'


def not_found(site: pathlib.Path):
    """Public entities that the search does not know."""
    known = set()
    for script in site.glob('search/all_*.js'):
        for entry in re.findall(r"^ {2}\['[^']*',\[(.*)\]\]", script.read_text(), re.M):
            name = html.unescape(re.match("'([^']*)'", entry)[1])
            for scope in re.findall(r"',\d,'([^']*)'", entry):
                scope = re.sub(r'[<(].*', '', html.unescape(scope)).strip()
                known |= {f'{scope}::{name}', scope}
    for header in flags.headers():
        for one, name in documented.entities(header):
            if one.space in documented.spaces(header) and f'{one.space}::{name}' not in known:
                yield f'{one.where}: the search does not find {one.space}::{name}'


def no_topic():
    """Folders of headers of which docs/reference.dox says nothing."""
    text = (ROOT / 'docs' / 'reference.dox').read_text()
    known = set(re.findall(r'^@defgroup (\w+) \S.*\n@brief \S', text, re.M))
    for header in flags.headers():
        if builder.topic(header) not in known:
            name = header.relative_to(ROOT)
            yield f'{name}: docs/reference.dox has no {builder.topic(header)} with a title and a @brief'


def in_a_browser(site: pathlib.Path, chromium: str):
    """What a reader sees who opens the site from a folder and types a word."""
    for word, expected in SEARCHED.items():
        typed = (f"window.addEventListener('load', function() {{ setTimeout(function() {{"
                 f"document.getElementById('MSearchField').value = '{word}'; searchBox.Search(); }}, 500); }});")
        page = site / 'typed.html'
        page.write_text((site / 'index.html').read_text().replace('</body>', f'<script>{typed}</script></body>'))
        with tempfile.TemporaryDirectory() as profile:
            words = [chromium, '--headless', '--no-sandbox', '--disable-gpu', f'--user-data-dir={profile}',
                     '--virtual-time-budget=10000', '--dump-dom', page.as_uri()]
            seen = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120).stdout
        page.unlink()
        if 'Fulgurite is PyTorch Lightning' not in seen:
            yield f'the first page has no text: {seen[:300]}'
        shown = [result for result in seen.split('class="SRResult"')[1:] if 'display: block' in result.split('>')[0]]
        if not any(expected in result for result in shown):
            yield f'{word} has {len(shown)} results, none of which is {expected}'


def removes():
    """What a folder lacks that is no site, after a site was to be built in it."""
    with tempfile.TemporaryDirectory() as name:
        notes = pathlib.Path(name) / 'notes.txt'
        notes.write_text('mine')
        words = [sys.executable, ROOT / 'tools' / 'docs.py', name]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode == 0 or not notes.is_file():
            yield f'it ended with {done.returncode}, and {notes.name} {"stays" if notes.is_file() else "is gone"}'


def check(site: pathlib.Path):
    warnings = builder.build(site)
    chromium = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
    browser = 'it opens and searches in a browser'
    flags.tap([('the site builds without a warning', warnings),
               ('each link and each anchor of it leads somewhere', list(dead_links(site))),
               ('the search knows every public entity', list(not_found(site))),
               ('each folder of headers is a topic of the reference', list(no_topic())),
               ('a folder with other files is left as it is', list(removes())),
               (browser, list(in_a_browser(site, chromium))) if chromium
               else (f'{browser} # SKIP no Chromium: tools/dev docs --check installs it', [])])


if why := builder.doxygen()[1]:
    print(f'1..0 # SKIP {why}: tools/dev docs installs it')
elif len(sys.argv) > 1:
    check(pathlib.Path(sys.argv[1]).resolve())
else:
    with tempfile.TemporaryDirectory() as name:
        check(pathlib.Path(name) / 'site')
