"""Runs the specification's cases on PyTorch Lightning and compares what they come to with what our tests observed.

    .oracle/bin/python tools/oracle.py OBSERVATIONS [ID...]

OBSERVATIONS is the file that tests/conformance wrote (`id, label, value`, see observed.hpp). Each case in tools/lightning is a function
that returns the same labels with Lightning's values. Prints a line for every observation: same, differs (with the decision that
explains it), only here (not run on Lightning), only there. Exit status 1: a difference that nothing explains, or a label of one side
alone in a case that both have. `tools/dev oracle` does all of it."""

import collections
import contextlib
import io
import pathlib
import sys

from lightning_cases import canonical, cases, versions

# id, or "id label" -> why it differs. D numbers are those of the specification's decisions.md.
WHY = {
    'C8 p': 'D1', 'C9 n5': 'D1', 'C10 n5': 'D1', 'C25 limit 20': 'D11', 'C31': 'D3', 'C32': 'D3', 'C47': 'D2', 'C49': 'D7', 'C54': 'D2',
    'C62 0': 'D7', 'C62 -1': 'D7', 'C64': 'D18', 'C110': 'D8', 'C114': 'D8', 'C115': 'D8',
    'C40 nothing set': 'W38 of the specification: what ends a run is said',
    'C153': 'C100: who watches a metric hears the end of an epoch after the model, so it stands at the end',
}

def run(function) -> dict[str, str]:
    """Lightning's values; it may print and warn as it likes."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return {label: canonical(value) for label, value in function().items()}


def short(text: str, width: int) -> str:
    return text if len(text) <= width else text[:width - 3] + '...'


def main() -> int:
    file, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    ours = collections.defaultdict(dict)
    for entry in file.read_text().splitlines():
        case_id, label, value = entry.split('\t')
        ours[case_id][label] = value
    count, unexplained = collections.Counter(), []
    print(f'{versions}\n{"case":28} {"":10} here | Lightning')
    for case_id in sorted(set(ours) | set(cases), key=lambda text: int(text[1:])):
        if wanted and case_id not in wanted:
            continue
        try:
            theirs = run(cases[case_id]) if case_id in cases else {}
        except Exception as error:  # one case must not hide the others
            theirs = {'fails': f'{type(error).__name__}: {error}'.replace('\n', ' ')}
        for label in [*ours[case_id], *(label for label in theirs if label not in ours[case_id])]:
            here, there, why = ours[case_id].get(label), theirs.get(label), WHY.get(case_id) or WHY.get(f'{case_id} {label}')
            if here == there:
                kind, text = 'same', short(here, 90)
            elif there is None:
                kind, text = 'only here', short(here, 90)
            elif here is None:
                kind, text = 'only there', there
            else:
                kind, text = 'differs', f'{here} | {there} | {why or "UNEXPLAINED"}'
            # A case that is still to come has no observation at all.
            alone = kind in ('only here', 'only there') and ours[case_id] and theirs
            if alone or (kind == 'differs' and not why):
                unexplained.append(f'{case_id} {label}')
            count[kind] += 1
            print(f'{short(case_id + " " + label, 28):28} {kind:10} {text}')
    print('; '.join(f'{count[kind]} {kind}' for kind in ('same', 'differs', 'only here', 'only there') if count[kind]))
    if unexplained:
        print(f'unexplained: {", ".join(unexplained)}')
    return 1 if unexplained else 0


if __name__ == '__main__':
    sys.exit(main())
