"""Runs the specification's cases on PyTorch Lightning and compares what they come to with what our tests observed.

    .oracle/bin/python tools/oracle.py OBSERVATIONS [ID...]

OBSERVATIONS is the file that tests/conformance wrote (`id, label, value`, see observed.hpp). Each case in
tools/lightning_cases is a function that returns the same labels with Lightning's values. Prints a line for every
observation: same, differs (with the decision that explains it), only here (not run on Lightning), only there. Exit
status 1: a difference that nothing explains, an explanation of none, or a label of one side alone in a case that both
have. `tools/dev oracle` does all of it."""

import collections
import contextlib
import io
import pathlib
import sys

from lightning_cases import canonical, cases, versions

# What differs -> why. D numbers are those of the specification's decisions.md.
WHY = {
    'D1': ['C8 p', 'C9 n5', 'C10 n5'],
    'D2': ['C47 gs', 'C54 gs', 'C54 p'],
    'D3': ['C31 moves', 'C32 f2 K2 n6'],
    'D7': ['C49 min 5 max 3', 'C62 0', 'C62 -1'],
    'D8': ['C110 p', 'C114 p', 'C115 p', 'C115 epoch'],
    'D11': ['C25 limit 20'],
    'D18': ['C64 doubled'],
    'W38 of the specification: a run says what ends it': ['C40 nothing set'],
    'C100: who watches a metric hears the end of an epoch after the model': ['C153 order'],
}
REASONS = {what: why for why, all_of_it in WHY.items() for what in all_of_it}


def run(function) -> dict[str, str]:
    """Lightning's values; it may print and warn as it likes."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return {label: canonical(value) for label, value in function().items()}


def short(text: str, width: int) -> str:
    return text if len(text) <= width else text[:width - 3] + '...'


def observations(file: pathlib.Path, wanted: list[str]) -> dict[str, dict[str, str]]:
    ours = collections.defaultdict(dict)
    for entry in file.read_text().splitlines():
        case_id, label, value = entry.split('\t')
        if ours[case_id].setdefault(label, value) != value:
            sys.exit(f'{case_id} {label} was observed twice, as "{ours[case_id][label]}" and as "{value}"')
    return {case_id: labels for case_id, labels in ours.items() if not wanted or case_id in wanted}


def main() -> int:
    wanted = sys.argv[2:]
    ours = observations(pathlib.Path(sys.argv[1]), wanted)
    count, unexplained, differing = collections.Counter(), [], set()
    print(f'{versions}\n{"case":28} {"":10} here | Lightning')
    for case_id in sorted(
        set(ours) | {name for name in cases if not wanted or name in wanted}, key=lambda name: int(name[1:])
    ):
        here = ours.get(case_id, {})
        try:
            there = run(cases[case_id]) if case_id in cases else {}
        except Exception as error:  # one case must not hide the others
            there = {'fails': f'{type(error).__name__}: {error}'.replace('\n', ' ')}
        for label in [*here, *(label for label in there if label not in here)]:
            what = f'{case_id} {label}'
            if label not in there:
                kind, text = 'only here', short(here[label], 90)
            elif label not in here:
                kind, text = 'only there', short(there[label], 90)
            elif here[label] == there[label]:
                kind, text = 'same', short(here[label], 90)
            else:
                kind, text = 'differs', f'{here[label]} | {there[label]} | {REASONS.get(what, "UNEXPLAINED")}'
                differing.add(what)
            # A case that one side does not have at all is no difference: it is still to come.
            if (kind == 'differs' and what not in REASONS) or (kind.startswith('only') and here and there):
                unexplained.append(what)
            count[kind] += 1
            print(f'{short(what, 28):28} {kind:10} {text}')
    print('; '.join(f'{count[kind]} {kind}' for kind in ('same', 'differs', 'only here', 'only there') if count[kind]))
    idle = [] if wanted else sorted(set(REASONS) - differing)
    if idle:
        print(f'said to differ, and do not: {", ".join(idle)}')
    if unexplained:
        print(f'unexplained: {", ".join(unexplained)}')
    return 1 if unexplained or idle else 0


if __name__ == '__main__':
    sys.exit(main())
