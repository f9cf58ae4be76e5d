"""No file of the repository names a package registry's host or a path of somebody's machine; prints TAP, a line per
pattern.

Also: every source below tests/ is in the build, which lists its sources when it is configured (`clean.py BUILD`)."""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

# What must not occur, and the lines where it may (file pattern, line pattern). Dots are written [.] so that no line
# here names what it seeks.
HOSTS = [
    'pypi[.]org',
    'pythonhosted[.]org',
    'download[.]pytorch[.]org',
    'conda[.]anaconda[.]org',
    'registry[.]npmjs[.]org',
    'conan[.]io',
    'crates[.]io',
    'proxy[.]golang[.]org',
    'wrapdb[.]mesonbuild[.]com',
    r'\b(deb|security|snapshot|ftp)[.][\w.]*debian[.]org',
    '(archive|security)[.]ubuntu[.]com',
    r'[\w-]+[.]pkg[.]dev',
    r'\bartifactory\b',
]
PATHS = [r'(?<![\w.~*])/(work|root|home|Users|opt)(?![\w.-])(/|\b)']
EXEMPT = [('subprojects/*.wrap', r'(source|patch)(_fallback)?_url = ')]


def tracked() -> list[str] | None:
    run = subprocess.run(
        ['git', '-c', 'safe.directory=*', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
        cwd=flags.ROOT,
        capture_output=True,
        text=True,
    )
    return sorted(set(run.stdout.split('\0')) - {''}) if run.returncode == 0 else None


def occurrences(pattern: str, files: dict[str, list[str]]):
    for file, lines in files.items():
        for number, line in enumerate(lines, 1):
            allowed = any(fnmatch.fnmatch(file, where) and re.match(what, line) for where, what in EXEMPT)
            if re.search(pattern, line) and not allowed:
                yield f'{file}:{number}: {line.strip()[:120]}'


def unlisted(build: pathlib.Path):
    known = {(build / entry['file']).resolve() for entry in json.loads((build / 'compile_commands.json').read_text())}
    # A unit that batches.py wrote is made of several files, which Meson knows as its sources.
    targets = json.loads((build / 'meson-info' / 'intro-targets.json').read_text())
    known |= {pathlib.Path(name) for target in targets if target['type'] == 'custom'
              for sources in target['target_sources'] for name in sources['sources']}
    torch = any(path.name == 'full_one.cpp' for path in known)
    for folder in ('unit', 'conformance', 'static') + (('torch', 'cost') if torch else ()):
        for source in sorted((flags.ROOT / 'tests' / folder).glob('*.cpp')):
            if source.resolve() not in known:
                yield f'{source.relative_to(flags.ROOT)} came after the build was configured: meson setup --reconfigure'


def stale_readme():
    """README's block of C++ is all of examples/first.cpp."""
    shown = re.findall(r'```cpp\n(.*?)```', (flags.ROOT / 'README.md').read_text(), re.S)
    if [block.strip() for block in shown] != [(flags.ROOT / 'examples' / 'first.cpp').read_text().strip()]:
        yield "README.md's program is not examples/first.cpp any more: copy it again"


names = tracked()
licence = (flags.ROOT / 'LICENSE').read_text().splitlines()[:1]
said = re.search(r"license: '([^']*)'", (flags.ROOT / 'meson.build').read_text())
results = [("README's program is the one that is built", list(stale_readme())),
           ('LICENSE is the one that meson.build names',
            [] if licence == ['BSD 3-Clause License'] and said and said[1] == 'BSD-3-Clause'
            else [f'{licence}, {said}'])]
if names is not None:  # a release's archive has no git: nothing to read then
    files = {}
    for name in names:
        try:
            files[name] = (flags.ROOT / name).read_text().splitlines()
        except (UnicodeDecodeError, OSError):
            continue  # binary, or just removed
    results += [
        ('no file names a package registry', [hit for pattern in HOSTS for hit in occurrences(pattern, files)]),
        ('no file names a path of a machine', [hit for pattern in PATHS for hit in occurrences(pattern, files)]),
    ]
results.append(('every source of the tests is built', list(unlisted(pathlib.Path(*flags.arguments('BUILD'))))))
flags.tap(results)
