"""Several test files as one unit, so that what they share is compiled once: half the time of a suite, or less.

    batches.py plan FOLDER SIZE     prints the .cpp files of a folder, the names of one unit a line
    batches.py write OUT FILE...    writes the unit: all #include lines first, then each file in a namespace of its own

Files of one unit cannot see each other's names. A file stays alone where that cannot be: it defines macros, opens a
named namespace of the library or specializes its templates, or replaces operator new."""

import pathlib
import re
import sys

ALONE = re.compile(
    r'^(#define|#undef|#if|template <>|namespace (fulgurite|toy|std)\b|extern |void\* operator new)', re.M
)
INCLUDE = re.compile(r'^#include .*', re.M)


def plan(folder: pathlib.Path, size: int) -> list[list[str]]:
    files = sorted(folder.glob('*.cpp'))
    together = [file.name for file in files if size > 1 and not ALONE.search(file.read_text())]
    units = [together[start : start + size] for start in range(0, len(together), size)]
    return units + [[file.name] for file in files if file.name not in together]


def namespace(file: pathlib.Path) -> str:
    return 'test_' + re.sub(r'\W', '_', file.stem)


def unit(files: list[pathlib.Path]) -> str:
    includes = dict.fromkeys(line for file in files for line in INCLUDE.findall(file.read_text()))
    parts = [f'namespace {namespace(file)} {{\n#include "{file.name}"\n}}' for file in files]
    return '\n'.join([*includes, *parts]) + '\n'


def main() -> None:
    if sys.argv[1] == 'plan':
        for names in plan(pathlib.Path(sys.argv[2]), int(sys.argv[3])):
            print(*names)
        return
    out, text = pathlib.Path(sys.argv[2]), unit([pathlib.Path(name) for name in sys.argv[3:]])
    if not out.exists() or out.read_text() != text:  # an edit inside a file must not make the unit look new
        out.write_text(text)


if __name__ == '__main__':
    main()
