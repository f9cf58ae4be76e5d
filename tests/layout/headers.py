"""Every header compiles alone, and twice: `headers.py BUILD bare|torch` prints one TAP line per header.

bare: all headers but LibTorch's part. torch: the headers of torch/ and distributed/, on top of LibTorch itself, which
would take 20 s each (that a header includes LibTorch is layers.py's to check). Builds by clang ask this; those by g++
have the units of `twice-bare` and `twice-full`, which include every header in both orders.

A header that includes another one, at once or by way of others, is as good as alone behind it: only the order of what
it includes is another. So a unit holds a chain of headers, each of which includes the one before it, and there are as
few chains as can be. Only where one does not compile is each of its headers compiled alone."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402


def chains(names: list[str]) -> list[list[str]]:
    """The names in as few chains as can be: a largest matching between headers and those that may follow them, by
    augmenting paths (Fulkerson 1956)."""
    below = {name: flags.reached(flags.INCLUDE / name) for name in names}
    after = {name: sorted((m for m in names if m != name and name in below[m]), key=lambda m: len(below[m]))
             for name in names}
    before: dict[str, str] = {}

    def follow(name: str, tried: set[str]) -> bool:
        for next_one in after[name]:
            if next_one not in tried:
                tried.add(next_one)
                if next_one not in before or follow(before[next_one], tried):
                    before[next_one] = name
                    return True
        return False

    for name in sorted(names, key=lambda name: -len(below[name])):
        follow(name, set())
    found = []
    for last in sorted(set(names) - set(before.values()), key=lambda name: -len(below[name])):
        chain = [last]
        while chain[0] in before:
            chain.insert(0, before[chain[0]])
        found.append(chain)
    return found


def precompiled(how, header: pathlib.Path, source: pathlib.Path) -> list[str]:
    """Compiles `source` into a precompiled header; the arguments to begin with it."""
    words, folder = how
    words = words + ['-fpch-instantiate-templates', '-x', 'c++-header', str(source), '-o', str(header)]
    subprocess.run(words, cwd=folder, check=True)
    return ['-include-pch', str(header)]


def main() -> None:
    folder, which = flags.arguments('BUILD', 'bare|torch')
    build = pathlib.Path(folder)
    how = flags.command(build, 'bare_one.cpp' if which == 'bare' else 'full_one.cpp')
    if how is None:
        sys.exit('the build folder lacks the units of tests/layout')
    names = [
        header.relative_to(flags.INCLUDE).as_posix()
        for header in flags.headers()
        if flags.on_torch(header) == (which == 'torch')
    ]
    with tempfile.TemporaryDirectory() as scratch:
        libtorch = flags.ROOT / 'tests' / 'layout' / 'libtorch_alone.hpp'
        on = precompiled(how, pathlib.Path(scratch) / 'torch.pch', libtorch) if which == 'torch' and names else []

        def complaints(chain: list[str]) -> list[str]:
            good, said = flags.compile_only(how, on, ''.join(flags.included(name) * 2 for name in chain))
            return [] if good else ['\n'.join(said.splitlines()[:20])]

        def alone(chain: list[str]) -> list[tuple[str, list[str]]]:
            good = not complaints(chain)
            found = [(name, [] if good else complaints([name])) for name in chain]
            if not good and not any(said for _, said in found):  # only together do they not compile
                found[-1] = chain[-1], complaints(chain)
            return found

        flags.tap(sorted(result for chain in flags.each(alone, chains(names)) for result in chain))


main()
