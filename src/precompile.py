"""Writes a precompiled header with the very flags of a target: `precompile.py BUILD TARGET HEADER OUT [ARGUMENT...]`.

A compiler takes a precompiled header only where the flags are those that it was made with, and only Meson knows them
all (options, architecture, sanitizers): they are read from BUILD/compile_commands.json, from the command of TARGET's
first unit. OUT is HEADER.gch for g++ and HEADER.pch for clang; HEADER is written beside it."""

import json
import pathlib
import shlex
import subprocess
import sys


def main() -> int:
    build, target, header, out, *more = sys.argv[1:]
    entries = json.loads((pathlib.Path(build) / 'compile_commands.json').read_text())
    entry = next(entry for entry in entries if f'{target}.p/' in entry.get('output', ''))
    words, kept = iter(shlex.split(entry['command'])), []
    for word in words:
        if word in ('-o', '-MQ', '-MF', '-MT'):
            next(words)
        elif word not in ('-c', '-MD', '-MMD', entry['file']) and pathlib.Path(word).name != 'ccache':
            kept.append(word)
    text, header_file = f'#include <{header}>\n', pathlib.Path(out).with_suffix('').resolve()
    header_file.write_text(text)
    depfile = str(pathlib.Path(out).resolve()) + '.d'
    words = [*kept, *more, '-w', '-MD', '-MF', depfile, '-MT', out, '-x', 'c++-header', str(header_file)]
    return subprocess.run([*words, '-o', str(pathlib.Path(out).resolve())], cwd=entry['directory']).returncode


sys.exit(main())
