"""The tables of docs/performance.md and README.md from a run.

    markdown.py JSON [--short]"""

import pathlib
import sys

from samples import AGAIN, RAW, WITH, Samples, read

OURS = ['trainer', 'fast', 'captured']
LOOPS = [RAW, 'hand-tuned', 'twin', *OURS]
FASTEST = 'fastest'
PRODUCTS = [RAW, RAW + WITH, *(loop + WITH for loop in OURS), FASTEST]
PEERS = ['pytorch', 'torch.compile', 'lightning barebones', 'lightning', 'jax', 'jax scan']
SHORT = ['tiny-mlp-adam', 'lstm-adam', 'mnist-mlp-sgd', 'mnist-mlp-adam', 'mnist-cnn-adam', 'char-gpt-adam',
         'resnet18-sgd']


def figure(micro: float) -> str:
    return f'{micro:.1f}' if micro < 100 else f'{micro:.0f}'


def against_raw(samples: Samples, workload: str, variant: str) -> str:
    """Microseconds, and how many times as fast as the raw loop; a difference within noise is 1."""
    least, ratio = samples.least(workload, variant), samples.ratio(workload, variant)
    return '' if least is None or ratio is None else f'{figure(least)} ({ratio:.2f})'


def row(cells: list[str]) -> str:
    return '| ' + ' | '.join(cells) + ' |'


def table(head: list[str], rows: list[list[str]]) -> str:
    return '\n'.join([row(head), row(['---'] + ['---:'] * (len(head) - 1)), *map(row, rows)])


def loops(samples: Samples, variants: list[str], workloads: list[str]) -> str:
    rows = [
        [
            workload,
            figure(samples.least(workload, RAW) or 0),
            *(against_raw(samples, workload, v) for v in variants[1:]),
            f'{100 * samples.spread(workload):.1f} %',
        ]
        for workload in workloads
        if samples.least(workload, RAW)
    ]
    return table(['workload', 'raw, us', *variants[1:], 'A/A'], rows)


def peers(samples: Samples) -> str:
    """Python's loops, and how many times as fast the captured fit is."""
    rows = []
    for workload in samples.workloads:
        if not any(samples.least(workload, peer) for peer in PEERS):
            continue
        cells, ours = [], samples.as_given(workload, 'captured')
        for peer in PEERS:
            least, ratio = samples.least(workload, peer), samples.ratio(workload, ours, peer)
            cells.append('' if least is None or ratio is None else f'{figure(least)} ({ratio:.1f})')
        rows.append([workload, figure(samples.least(workload, ours) or 0), *cells])
    return table(['workload', 'captured, us', *PEERS], rows) if rows else ''


def speeds(samples: Samples) -> str:
    """GFLOP/s of the products, over the whole step."""
    shown = [RAW, RAW + WITH, 'captured', 'captured' + WITH]
    rows = [[workload, *(f'{speed:.1f}' if (speed := samples.speed(workload, loop)) else '' for loop in shown)]
            for workload in samples.workloads if samples.speed(workload, RAW)]
    return table(['workload', *shown], rows) if rows else ''


def main() -> None:
    samples = Samples(read(pathlib.Path(sys.argv[1])))
    if '--short' in sys.argv:
        print(loops(samples, PRODUCTS, SHORT))
        return
    data = samples.data
    print(
        f"Commit {data.get('commit')}, LibTorch {data.get('libtorch')}, {data.get('processor')} "
        f"(kind: {data.get('processor_kind')}), threads {data.get('threads', 1)}, load {data.get('load')}.\n"
    )
    print(loops(samples, LOOPS, [name for name in samples.workloads if samples.least(name, AGAIN)]), '\n')
    print(loops(samples, PRODUCTS, [name for name in samples.workloads if samples.least(name, RAW + WITH)]), '\n')
    print(speeds(samples), '\n')
    print(peers(samples))


if __name__ == '__main__':
    main()
