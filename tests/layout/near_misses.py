"""The headers of names that are almost hooks are as tools/near_misses.py writes them, and no name in them is ours;
prints TAP."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

sys.path.insert(0, str(flags.ROOT / 'tools'))
import near_misses  # noqa: E402


def stale():
    for path, text in near_misses.files().items():
        if not path.exists() or path.read_text() != text:
            yield f'{path.relative_to(flags.ROOT)} is not what the generator writes: python3 tools/near_misses.py write'


def meant():
    """What a row says is a hook of hook/hooks.hpp; the few that say it in words are Lightning's."""
    hooks = near_misses.hooks()
    for name, what in near_misses.table().items():
        if name in hooks:
            yield f'{name} is a hook'
        if what not in hooks and name not in near_misses.LIGHTNING:
            yield f'{name}: {what} is no hook'
    known = hooks.keys() | {name for name, _ in near_misses.rows('policy_hooks.hpp')}
    for names in near_misses.of_policies().values():
        for name, what in names.items():
            if name in known or what not in known:
                yield f'{name} of {what}: the one is a function of ours, or the other is none'


def ours():
    """A participant of ours, or of an example, that had such a function would be refused."""
    names = [*near_misses.table(), *(name for names in near_misses.of_policies().values() for name in names)]
    function = re.compile(rf'^ +(?!return |else )(?:[^\s(/.]+ )+({"|".join(names)})\(', re.M)  # with a type before it
    for path in [*flags.headers(), *flags.ROOT.glob('examples/**/*.cpp')]:
        if path.name in ('context.hpp', 'run_context.hpp', 'manual.hpp', 'parts.hpp'):  # a context is no participant
            continue
        for name in function.findall(path.read_text()):
            yield f'{path.relative_to(flags.ROOT)} has a function {name}'


flags.tap([('the headers of near misses are as written', list(stale())),
           ('near misses are no hooks, and mean one', list(meant())),
           ('no class of ours has such a function', list(ours()))])
