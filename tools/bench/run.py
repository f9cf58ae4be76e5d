"""Runs the loops and, if asked, their peers in Python; keeps every sample, draws them, and says which bars are met.

    run.py BUILD [--quick] [--only WORKLOAD] [--json FILE] [--picture FILE] [--commit HASH] [--bars] [--bits]
           [--threads N | --peers PYTHON]

BUILD has benchmarks/steps and, for --bars, the programs of suite `cost`. With --bits the loops also train 1000 steps
each, untimed, and their weights are compared. Everything runs on one core, peers included: a library that starts
threads (JAX) has them there. With --threads N the loops have N threads of LibTorch on as many cores, and each bar asks
only that no loop of ours is slower than the raw one."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import bars
import chart
import compile as compiling
import counted
import peers as peering
import samples as sampling

TRIES = 3


def steps(
    program: pathlib.Path,
    out: pathlib.Path,
    arguments: list[str],
    workload: str = '',
    peers: peering.Peers | None = None,
) -> dict:
    """One run of the loops. With peers, the loops wait after each of their rounds until these have had theirs."""
    words = [str(program), '--json', str(out), *arguments]
    taken: dict[str, list[float]] = {}
    environment = os.environ | ({'FULGURITE_TURNS': '1'} if peers else {})
    with subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        for line in process.stdout:
            if line == 'turn\n':
                for variant, micro in (peers.round(workload) if peers else {}).items():
                    taken.setdefault(variant, []).append(micro)
                process.stdin.write('\n')
                process.stdin.flush()
            else:
                print(line, end='', flush=True)
    if not out.exists():
        sys.exit(f'{program} ended with status {process.returncode} and without a result')
    data = sampling.read(out)
    data['failed'] = process.returncode != 0  # it says itself what is wrong: weights that are not the same
    if peers and not taken:
        peers.skipped |= dict.fromkeys(peering.VARIANTS, 'benchmarks/steps takes no turns')
    data['workloads'].get(workload, {}).update(taken)
    if peers:
        data.setdefault('warm_up', {}).setdefault(workload, {}).update(peers.warm_up.get(workload, {}))
    return data


def merge(into: dict, data: dict) -> None:
    for key, value in data.items():
        if key == 'failed':
            into[key] = into.get(key, False) or value
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            into[key] |= value
        else:
            into[key] = value


class Bench:
    def __init__(self, given: argparse.Namespace):
        self.given, self.folder = given, given.build / 'benchmarks'
        self.program, self.part = self.folder / 'steps', self.folder / 'part.json'
        self.arguments = ['--commit', given.commit, '--threads', str(given.threads)]
        self.arguments += ['--quick'] if given.quick else []
        self.peers: peering.Peers | None = None

    def loops(self, workloads: str, *more: str, workload: str = '', peers: peering.Peers | None = None) -> dict:
        self.part.unlink(missing_ok=True)
        return steps(
            self.program,
            self.part,
            [*self.arguments, *([] if not workloads else ['--only', workloads]), *more],
            workload,
            peers,
        )

    def measure(self, only: str) -> dict:
        """Every workload once; those that Python has, too, with it."""
        if self.peers is None:
            return self.loops(only)
        shared = [name for name in self.peers.workloads if bars.wanted(name, only)]
        alone = ','.join(name for name in only.split(',') if name not in shared)
        data: dict = {}
        for name in shared:
            self.peers.prepare(name)
            merge(data, self.loops(name, workload=name, peers=self.peers))
        if not only:
            merge(data, self.loops('', '--skip', ','.join(shared)))
        elif alone:
            merge(data, self.loops(alone))
        data['peers'], data['peers_skipped'] = self.peers.versions, self.peers.skipped
        print('\nPeers, in turns with the loops above: ' + ', '.join(self.peers.versions))
        print(peering.rows(sampling.Samples(data), self.peers.skipped), flush=True)
        return data

    def again(self, workload: str) -> dict:
        peers = self.peers if self.peers and workload in self.peers.workloads else None
        return self.loops(workload, workload=workload, peers=peers)

    def judged(self, data: dict) -> list[bars.Bar]:
        """All bars. A workload that misses one by more than noise is measured again, up to twice, and the better of its
        tries counts."""
        only = self.given.only
        measured = self.of_samples(data, only)
        for attempt in range(1, TRIES):
            missed = sorted({bar.workload for bar in measured if bar.workload and bar.fails()})
            if not missed:
                break
            print(f'\nTry {attempt + 1} of {TRIES} for what missed a bar: {", ".join(missed)}', flush=True)
            for workload in missed:
                tried = self.again(workload)
                data.setdefault('tries', {}).setdefault(workload, []).append(tried['workloads'][workload])
                newly = {(bar.name, bar.of): bar for bar in self.of_samples(tried, workload)}
                measured = [bars.better(bar, newly.get((bar.name, bar.of), bar)) for bar in measured]
        if only or self.given.threads > 1:
            return bars.order(measured)
        return bars.order(measured + bars.of_thousand_steps(data) + bars.of_extras(data)
                          + counted.bars(self.given.build / 'tests' / 'cost')
                          + compiling.bars(self.folder / 'compile.json', self.given.commit))

    def of_samples(self, data: dict, only: str) -> list[bars.Bar]:
        found = sampling.Samples(data)
        if self.given.threads > 1:
            return bars.never_slower([*bars.of_loops(found, only), *bars.of_products(found, only)])
        return [*bars.of_loops(found, only), *bars.of_products(found, only), *bars.of_logging(found, only),
                *bars.of_peers(found, peering.NOT_ASKED, only)]


def say(judged: list[bars.Bar]) -> int:
    """Prints the bars; how many are missed by more than noise."""
    print()
    for bar in judged:
        print(bar.line())
    failed = [bar for bar in judged if bar.fails()]
    noise = [bar for bar in judged if not bar.met() and not bar.fails()]
    print('\nRatios are of the least of all rounds; one nearer to 1 than two equal loops are apart is given as 1.')
    if noise:
        print('Missed by less than two equal loops differ: ' + ', '.join(f'{bar.name} {bar.of}' for bar in noise))
    if failed:
        print(f'MISSED, in {TRIES} tries where it was timed: ' + ', '.join(f'{bar.name} {bar.of}' for bar in failed))
    return len(failed)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('build', type=pathlib.Path)
    options.add_argument('--quick', action='store_true')
    options.add_argument('--bars', action='store_true')
    options.add_argument('--bits', action='store_true')
    options.add_argument('--peers', type=pathlib.Path)
    options.add_argument('--threads', type=int, default=1)
    options.add_argument('--only', default='')
    options.add_argument('--commit', default='unknown')
    options.add_argument('--json', type=pathlib.Path)
    options.add_argument('--picture', type=pathlib.Path)
    given = options.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= given.threads <= len(cores) or (given.threads > 1 and given.peers):
        options.error(f'--threads takes 1 to {len(cores)}, the cores of this machine, and more than 1 without --peers')
    # Programs that are started from here inherit both.
    os.sched_setaffinity(0, cores[-given.threads:])
    os.environ['OMP_NUM_THREADS'] = str(given.threads)
    bench = Bench(given)
    out, picture = given.json or bench.folder / 'steps.json', bench.folder / 'steps.svg'
    if given.peers:
        with peering.Peers(given.peers, bench.folder / 'peers.log', given.quick) as bench.peers:
            data, judged = measured(bench)
    else:
        data, judged = measured(bench)
        print('Peers skipped: ' + ', '.join(peering.VARIANTS) + f' ({peering.NOT_ASKED})')
    sampling.write(out, data)
    picture.write_text(chart.drawn(sampling.Samples(data)))
    if given.picture:
        shutil.copy(picture, given.picture)
    missed = say(judged) if given.bars else 0
    print(f'\nEvery sample: {out}\nThe picture:  {picture}')
    return 1 if missed or data.get('failed') else 0


def measured(bench: Bench) -> tuple[dict, list[bars.Bar]]:
    data = bench.measure(bench.given.only)
    if bench.given.bits:
        print('\nWeights after 1000 steps:', flush=True)
        trained = bench.loops(bench.given.only, '--bits')
        data['same_bits_after_1000'], data['weights_after_1000'] = trained['same_bits'], trained.get('weights', {})
        data['failed'] = data['failed'] or trained['failed']
    judged = bench.judged(data) if bench.given.bars else []
    data['bars'] = [bar.line() for bar in judged]
    return data, judged


if __name__ == '__main__':
    sys.exit(main())
