"""fulgurite.hpp includes every header, but for those that are named here with a reason: `umbrella.py` prints TAP.

A program that includes it finds what the documents name and what an Error recommends."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

UMBRELLA = 'fulgurite/fulgurite.hpp'
LEFT_OUT = {  # beginnings of paths
    'fulgurite/fulgurite.hpp': 'is the umbrella',
    'fulgurite/cli': 'needs CLI11 and toml++, which need not be installed',
    'fulgurite/data/stride.hpp': 'includes range-v3, which costs half a second',
    'fulgurite/distributed/': 'includes process groups, which cost several seconds',
    'fulgurite/torch/export/': "includes LibTorch's tracer, which costs several seconds",
    'fulgurite/report/reflected': 'includes Boost.Hana, which costs a program that does not use it a second',
}


def main() -> None:
    there = flags.reached(flags.INCLUDE / UMBRELLA)
    names = [header.relative_to(flags.INCLUDE).as_posix() for header in flags.headers()]
    missing = [name for name in names if name not in there]
    flags.tap([
        (f'{UMBRELLA} includes every header that this test does not leave out',
         [f'{UMBRELLA} does not include {name}: include it, or give a reason in tests/layout/umbrella.py'
          for name in missing if not name.startswith(tuple(LEFT_OUT))]),
        (f'{UMBRELLA} includes nothing that this test leaves out',
         [f'{UMBRELLA} includes {name}, though it {why}' for begin, why in LEFT_OUT.items()
          for name in sorted(there) if name.startswith(begin)]),
        ('every reason is that of a header', [begin for begin in LEFT_OUT
                                              if not any(name.startswith(begin) for name in missing)]),
    ])


main()
