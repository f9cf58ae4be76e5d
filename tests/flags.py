"""What the Python-driven suites share: the compiler and flags of a build folder, TAP lines, and work on all cores."""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / 'include'
TORCH_FOLDERS = ('torch', 'distributed')  # the only parts of include/fulgurite that include LibTorch
# For programs, which want all or little; no header includes them.
PROGRAMS = ('fulgurite.hpp', 'trainer.hpp', 'defaults.hpp', 'cli.hpp')
# What defines the bodies: for the library's units, and for a program's one that defines FULGURITE_IMPLEMENTATION.
BODIES = ('bodies.hpp', 'bodies_bare.hpp', 'bodies_torch.hpp', 'bodies_cli.hpp')


def headers() -> list[pathlib.Path]:
    return [header for header in sorted(INCLUDE.glob('fulgurite/**/*.hpp')) if header.name not in BODIES]


def body_files() -> list[pathlib.Path]:
    return sorted(INCLUDE.glob('fulgurite/**/*.ipp'))


def part(header: pathlib.Path) -> str:
    """The folder below include/fulgurite that a header lies in; for one that lies there itself, its name."""
    return header.relative_to(INCLUDE / 'fulgurite').parts[0]


def on_torch(header: pathlib.Path) -> bool:
    return part(header) in TORCH_FOLDERS or part(header) in PROGRAMS


@functools.cache
def includes(header: pathlib.Path) -> tuple[str, ...]:
    """What a header includes itself."""
    code = re.sub(r'//[^\n]*|/\*.*?\*/', '', header.read_text(), flags=re.S)
    return tuple(re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', code, re.M))


@functools.cache
def reached(header: pathlib.Path) -> frozenset[str]:
    """All that a header includes, at once or through ours."""
    found, to_read = set(), [header]
    while to_read:
        new = set(includes(to_read.pop())) - found - {f'fulgurite/{name}' for name in BODIES}
        found |= new
        to_read += [INCLUDE / name for name in new if (INCLUDE / name).is_file()]
    return frozenset(found)


def rooms_included(room: str) -> set[str]:
    """The rooms, folders of include/fulgurite, that the headers and body files of a room include, but for itself."""
    paths = {path for header in headers() + body_files() if part(header) == room for path in includes(header)}
    rooms = {path.name for path in (INCLUDE / 'fulgurite').iterdir() if path.is_dir()}
    return {path.split('/')[1] for path in paths if path.startswith('fulgurite/')} & rooms - {room}


def included(header: str) -> str:
    """The line that includes a header, for sources that are to compile wherever the library does: what the command line
    stands on need not be there."""
    if not header.startswith('fulgurite/cli'):
        return f'#include <{header}>\n'
    return f'#if __has_include(<CLI/CLI.hpp>) && __has_include(<toml++/toml.h>)\n#include <{header}>\n#endif\n'


def joined(source: str) -> str:
    """A source in which a literal that is written over several lines stands in one."""
    return re.sub(r'(?<!\\)"\s*\n\s*"', '', re.sub(r'\b(TEST_CASE|static_assert)\(\s+"', r'\1("', source))


def command(build: pathlib.Path, unit: str) -> tuple[list[str], pathlib.Path] | None:
    """The command that compiles `unit`, without its source, its outputs and ccache, and the folder it runs in."""
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        if not entry['file'].endswith(unit):
            continue
        words, kept = iter(shlex.split(entry['command'])), []
        for word in words:
            if word in ('-o', '-MQ', '-MF', '-MT'):
                next(words)
            elif word not in ('-c', '-MD', '-MMD', entry['file']) and pathlib.Path(word).name != 'ccache':
                kept.append(word)
        return kept + ['-fdiagnostics-color=never'], pathlib.Path(entry['directory'])
    return None


def clang() -> str:
    """The clang that tools/dev takes: 19, else a newer one; empty if there is none."""
    for name in ('clang++-19', 'clang++-20', 'clang++-21', 'clang++'):
        if shutil.which(name):
            said = subprocess.run([name, '-dumpversion'], capture_output=True, text=True).stdout
            if int(said.split('.')[0]) >= 19:
                return name
    return ''


def compile_only(
    how: tuple[list[str], pathlib.Path], arguments: list[str], text: str | None = None
) -> tuple[bool, str]:
    """Runs the compiler's front end over a file, or over `text`: whether it was content, and what it said."""
    words, folder = how
    source = [] if text is None else ['-x', 'c++', '-']
    run = subprocess.run(
        words + ['-fsyntax-only'] + arguments + source, cwd=folder, input=text, capture_output=True, text=True
    )
    return run.returncode == 0, run.stderr


def each(function, items, most: int = 64) -> list:
    """`function` of each item, in order, computed on all cores this process may use, on `most` of them at most."""
    with concurrent.futures.ThreadPoolExecutor(max(1, min(most, len(os.sched_getaffinity(0))))) as pool:
        return list(pool.map(function, items))


def arguments(*names: str) -> list[str]:
    """The command line's arguments, of which there must be one for each name."""
    if len(sys.argv) != len(names) + 1:
        sys.exit(f'usage: {pathlib.Path(sys.argv[0]).name} {" ".join(names)}')
    return sys.argv[1:]


def tap(results: list[tuple[str, list[str]]]) -> None:
    """One TAP line per (name, complaints); the complaints go to stderr, which Meson shows with a failed test.

    A name that ends in " # SKIP why" is a test that could not be made."""
    print(f'1..{len(results)}' if results else '1..0 # SKIP nothing to check yet')
    for number, (name, complaints) in enumerate(results, 1):
        name, skipped, why = name.partition(' # SKIP ')
        print(f'{"not ok" if complaints else "ok"} {number} - {name.replace("#", "")}{skipped}{why}')
        if complaints:
            print(
                f'{name}:',
                *(f'    {line}' for complaint in complaints for line in complaint.splitlines()),
                sep='\n',
                file=sys.stderr,
            )
    sys.exit(any(complaints for _, complaints in results))
