"""Every header compiles alone, and twice: `headers.py BUILD bare|torch` prints one TAP line per header.

bare: all headers but LibTorch's part, each in a unit of its own (a second or less). torch: the headers of torch/ and
distributed/. LibTorch alone would take 20 s each, so it is compiled once into a precompiled header and each of ours
goes on top of that (1 to 3 s; that a header includes LibTorch itself is layers.py's to check). Builds by clang ask
this; those by g++ have the units of `twice-bare` and `twice-full`, which include every header in both orders."""

import pathlib
import sys
import subprocess
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402


def alone(how, header: pathlib.Path, more: list[str]) -> tuple[str, list[str]]:
    name = header.relative_to(flags.INCLUDE).as_posix()
    good, said = flags.compile_only(how, more, flags.included(name) * 2)
    return name, [] if good else ['\n'.join(said.splitlines()[:20])]


def main() -> None:
    build, which = pathlib.Path(sys.argv[1]), sys.argv[2]
    how = flags.command(build, 'bare_one.cpp' if which == 'bare' else 'full_one.cpp')
    if how is None:
        sys.exit('the build folder lacks the units of tests/layout')
    chosen = [header for header in flags.headers() if flags.on_torch(header) == (which == 'torch')]
    if which == 'bare' or not chosen:
        flags.tap(flags.each(lambda header: alone(how, header, []), chosen))
    words, folder = how
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / 'torch.pch'
        source = flags.ROOT / 'tests' / 'layout' / 'libtorch_alone.hpp'
        subprocess.run(
            words + ['-fpch-instantiate-templates', '-x', 'c++-header', source, '-o', out], cwd=folder, check=True
        )
        flags.tap(flags.each(lambda header: alone(how, header, ['-include-pch', str(out)]), chosen))


main()
