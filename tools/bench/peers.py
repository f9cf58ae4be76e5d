"""The Python comparators: a process for each library, asked for one round whenever the loops in C++ have finished one
of theirs."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / 'benchmarks' / 'peers'
LARGE = ['char-gpt-adam', 'resnet18-sgd']  # a step takes tens of milliseconds
WORKLOADS = ['tiny-mlp-sgd', 'tiny-mlp-adam', 'mnist-mlp-sgd', 'mnist-mlp-adam', 'mnist-cnn-adam', *LARGE]
QUICK = ['tiny-mlp-adam', 'mnist-mlp-adam']  # torch.compile alone takes 20 s for each
VARIANTS = ['pytorch', 'torch.compile', 'lightning barebones', 'lightning', 'jax', 'jax scan']
NOT_ASKED = 'run with --peers'
STEPS, A_ROUND = 1500, 0.6  # at most so many steps a round; where a step is slower, about so many seconds


class Peer:
    def __init__(self, python: pathlib.Path, script: str, log):
        self.process = subprocess.Popen(
            [python, SCRIPTS / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        self.version = self.process.stdout.readline().strip()

    def ask(self, what: dict) -> dict:
        if self.process.poll() is not None:
            return {}
        self.process.stdin.write(json.dumps(what) + '\n')
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{}')

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Peers:
    """Use as `with Peers(...) as peers`: whatever happens, no process is left behind."""

    def __init__(self, python: pathlib.Path, log: pathlib.Path, quick: bool):
        self.log, self.factor = log.open('w'), 0.1 if quick else 1.0
        self.workloads = QUICK if quick else WORKLOADS
        self.all = [Peer(python, script, self.log) for script in ('pytorch.py', 'with_lightning.py', 'with_jax.py')]
        self.versions = [peer.version for peer in self.all if peer.version]
        self.steps: dict[str, dict[str, int]] = {}
        self.warm_up: dict[str, dict[str, float]] = {}
        self.skipped = (
            {} if len(self.versions) == len(self.all) else dict.fromkeys(VARIANTS, f'it did not start: see {log}')
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in self.all:
            peer.end()
        self.log.close()

    def prepare(self, workload: str) -> None:
        """The first steps, apart: imports, compilations, memory. How many steps a round has is decided here."""
        warm_up, few = (20, 6) if workload in LARGE else (200, 30)
        first = self.ask({'workload': workload, 'warm_up': warm_up})
        self.warm_up[workload] = first
        trial = self.ask({'workload': workload, 'steps': dict.fromkeys(first, few)})
        self.steps[workload] = {
            variant: max(few, int(min(STEPS, A_ROUND * 1e6 / micro) * self.factor)) for variant, micro in trial.items()
        }

    def round(self, workload: str) -> dict[str, float]:
        return self.ask({'workload': workload, 'steps': self.steps[workload]})

    def ask(self, what: dict) -> dict[str, float]:
        said = {}
        for peer in self.all:  # one after the other: each has the machine for itself
            said |= peer.ask(what)
        self.skipped |= {variant: why for variant, why in said.items() if isinstance(why, str)}
        return {variant: value for variant, value in said.items() if not isinstance(value, str)}


def rows(samples, skipped: dict[str, str]) -> str:
    """The peers' part of the table, in the columns of benchmarks/steps."""
    lines = []
    for workload in WORKLOADS:
        raw = samples.least(workload, 'raw')
        found = [variant for variant in VARIANTS if samples.least(workload, variant)]
        for variant in found:
            least, median = samples.least(workload, variant), samples.median(workload, variant)
            warm_up = samples.data.get('warm_up', {}).get(workload, {}).get(variant, 0)
            ratio = f'{raw / least:6.3f}  {samples.median(workload, "raw") / median:6.3f}' if raw else ''
            lines.append(
                f'{workload if variant == found[0] else "":22} {variant:20} {least:10.1f} {median:10.1f}  {ratio}  {warm_up:10.1f}'
            )
    lines += [f'{variant} skipped: {why}' for variant, why in skipped.items()]
    return '\n'.join(lines)
