"""Writes a unit that includes every header: `units.py bare|full one|two`. Linked in pairs, they show that nothing is
defined twice.

bare is all but LibTorch's part. one includes in order (full: only fulgurite.hpp, as programs do), two in the opposite
order, so that a header which counts on its predecessors is found out."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

which, number = flags.arguments('bare|full', 'one|two')
names = [
    header.relative_to(flags.INCLUDE).as_posix()
    for header in flags.headers()
    if which == 'full' or not flags.on_torch(header)
]
if number == 'two':
    names.reverse()
elif 'fulgurite/fulgurite.hpp' in names:
    names = ['fulgurite/fulgurite.hpp']
print(f'// Written by tests/layout/units.py: {which} {number}.')
print(*(flags.included(name) for name in names), sep='')
print('int other();\nint main() { return other(); }' if number == 'one' else 'int other();\nint other() { return 0; }')
