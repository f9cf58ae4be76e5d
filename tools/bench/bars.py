"""The bars: what each asks for, what was measured, and whether it is met. One line a bar."""

import dataclasses
import statistics

from samples import RAW, WITH, Samples


@dataclasses.dataclass
class Bar:
    """One line. `value` is None where nothing was measured, and `why` says then why."""
    name: str  # P5
    of: str  # tiny-mlp-adam
    value: float | None
    sign: str = ''  # >=, <=, in; empty: reported only
    target: float | tuple[float, float] = 0.0
    spread: float = 0.0  # two equal things differ by so much, as a ratio
    why: str = 'not measured'
    workload: str = ''  # what to run again where it is missed

    def met(self, slack: float = 0.0) -> bool:
        if self.value is None or not self.sign:
            return True
        low, high = self.target if isinstance(self.target, tuple) else (self.target, self.target)
        least = self.sign == '<=' or self.value >= low * (1 - slack)
        return least and (self.sign == '>=' or self.value <= high * (1 + slack))

    def fails(self) -> bool:
        """Missed by more than noise: the exit status says so."""
        return not self.met(self.spread)

    def short_by(self) -> float:
        """By which part of its target it is missed: the smaller the better; below 0 it is met."""
        if self.value is None or not self.sign:
            return 0.0
        low, high = self.target if isinstance(self.target, tuple) else (self.target, self.target)
        below, above = (low - self.value) / (low or 1), (self.value - high) / (high or 1)
        return below if self.sign == '>=' else above if self.sign == '<=' else max(below, above)

    def line(self) -> str:
        if self.value is None:
            return f'{self.name} {self.of} skipped: {self.why}'
        if not self.sign:
            return f'{self.name} {self.of} {number(self.value)} reported'
        target = '..'.join(map(number, self.target)) if isinstance(self.target, tuple) else number(self.target)
        return f'{self.name} {self.of} {number(self.value)} {self.sign} {target} {"met" if self.met() else "missed"}'


def number(value: float) -> str:
    return (
        f'{value:.3f}'.rstrip('0').rstrip('.')
        if abs(value) < 2
        else f'{value:.3g}'
        if abs(value) < 1000
        else f'{value:.0f}'
    )


NULL, P8_NS = 'null-logged', 50
# What each workload asks of the fast set and of the captured one, against the raw loop; the others must not be slower.
NOT_SLOWER = 0.98
FAST = {'tiny-mlp-adam': 1.5, 'mnist-mlp-adam': 1.25, 'mnist-mlp-loader-adam': 1.6, 'mnist-cnn-adam': 1.02}
CAPTURED = {
    'tiny-mlp-sgd': 25,
    'tiny-mlp-adam': 30,
    'mlp-dropout-adam': 4,
    'regression-sgd': 15,
    'lstm-adam': 2.5,
    'lstm-tbptt-adam': 1.5,
    'gan-adam': 1.15,
    'mnist-cnn-adam': 1.05,
}
# Kinds of processors, as benchmarks/processor.cpp names them.
ZEN5, ZEN4 = 'AMD with AVX-512', 'AMD with AVX-512 in halves'
# What faster matrix products are to bring, by kind of processor: the eager step (the raw loop in a scope, and the same
# step in a trainer) and the captured one, times raw. None: not to be slower. All other workloads are not to be slower.
PRODUCTS = {
    'char-gpt-adam': {ZEN5: (1.6, 1.95), ZEN4: (None, None), 'Intel': (None, None)},
    'mnist-mlp-sgd': {ZEN5: (1.45, 2.3), ZEN4: (None, 1.45), 'Intel': (None, 1.4)},
    'mnist-mlp-adam': {ZEN5: (1.35, 2.05), ZEN4: (None, 1.45), 'Intel': (None, 1.4)},
}
# The same of captured steps with the fastest kernels, whose last bits may differ from LibTorch's.
FASTEST = {'char-gpt-adam': {ZEN5: 2.1}}
PEERS = [
    ('P6', 'tiny-mlp-adam', 'captured', 'pytorch', 18),
    ('P6', 'tiny-mlp-adam', 'captured', 'torch.compile', 18),
    ('P6', 'tiny-mlp-adam', 'captured', 'jax', 2.5),
    ('P6', 'tiny-mlp-adam', 'captured', 'jax scan', 1.67),
    ('P6', 'mnist-mlp-sgd', 'captured', 'jax', 0.98),
    ('P6', 'mnist-mlp-adam', 'captured', 'jax', 0.98),
    ('P6', 'mnist-mlp-adam', 'captured', 'jax scan', 1.0),
    ('P6', 'char-gpt-adam', 'captured', 'pytorch', None),
    ('P6', 'char-gpt-adam', 'captured', 'torch.compile', None),
    ('P6', 'char-gpt-adam', 'captured', 'jax', None),
    ('P6', 'resnet18-sgd', 'captured', 'pytorch', None),
    ('P7', 'tiny-mlp-adam', 'captured', 'lightning', 75),
    ('P7', 'tiny-mlp-adam', 'captured', 'lightning barebones', 45),
    ('P7', 'mnist-mlp-adam', 'captured', 'lightning', 5),
    ('P7', 'mnist-mlp-adam', 'captured', 'lightning barebones', 4),
    ('P7', 'mnist-cnn-adam', 'captured', 'lightning', None),
    ('P7', 'mnist-cnn-adam', 'captured', 'lightning barebones', None),
]


def wanted(workload: str, only: str) -> bool:
    return not only or workload in only.split(',')


def of_loops(samples: Samples, only: str = '') -> list[Bar]:
    """P3 to P5: the trainer against the loop by hand."""
    bars = []
    for workload in samples.workloads:
        if wanted(workload, only) and samples.least(workload, RAW):
            bars += of_workload(samples, workload)
    bars += [same_bits(samples, 'P3', 'trainer', ['trainer']), same_bits(samples, 'P5', 'captured', ['captured'])]
    bars += [Bar(name, workload, None, why='benchmarks/steps has no such workload')
             for name, table in (('P4', FAST), ('P5', CAPTURED)) for workload in table
             if workload not in samples.workloads and not only]
    return sorted(bars, key=lambda bar: bar.name)


def of_workload(samples: Samples, workload: str) -> list[Bar]:
    spread = samples.spread(workload)
    rows = [('P3', 'trainer', '>=', NOT_SLOWER), ('P4', 'fast', '>=', FAST.get(workload, NOT_SLOWER)),
            ('P5', 'captured', '>=', CAPTURED.get(workload, NOT_SLOWER))]
    # The trainer's own cost is measured with LibTorch's products; the other two as they are given to users.
    bars = []
    for name, variant, sign, target in rows:
        bars.append(
            Bar(
                name,
                workload,
                samples.ratio(workload, variant if name == 'P3' else samples.as_given(workload, variant)),
                sign,
                target,
                spread,
                f"its '{variant}' loop was not measured",
                workload,
            )
        )
    return bars


def of_products(samples: Samples, only: str = '') -> list[Bar]:
    """P15: what faster matrix products bring, by kind of processor."""
    kind, bars, elsewhere = samples.data.get('processor_kind', 'another'), [], []
    known = {each for table in PRODUCTS.values() for each in table}
    for workload in samples.workloads:
        if not wanted(workload, only) or not samples.least(workload, RAW):
            continue
        by_kind = PRODUCTS.get(workload, {})
        eager, captured = by_kind.get(kind, (None, None))
        if by_kind and kind not in known:
            elsewhere.append(workload)
        for loop, target in ((RAW, eager), ('trainer', eager), ('captured', captured)):
            bars.append(
                Bar(
                    'P15',
                    f'{workload}/{loop}-with-products',
                    samples.ratio(workload, loop + WITH),
                    '>=',
                    target or NOT_SLOWER,
                    samples.spread(workload),
                    f"its '{loop}{WITH}' loop was not measured",
                    workload,
                )
            )
    for workload, by_kind in FASTEST.items():
        if wanted(workload, only) and samples.least(workload, RAW):
            bars.append(Bar('P15', f'{workload}/fastest', samples.ratio(workload, 'fastest'), '>=',
                            by_kind.get(kind, NOT_SLOWER), samples.spread(workload),
                            "its 'fastest' loop was not measured", workload))
    bars += [Bar('P15', f'{workload}/{of}', None, why=f'its bar is for processors that are not at hand ({kinds})')
             for workload in elsewhere
             for of, place in (('eager', 0), ('captured', 1))
             if (kinds := ', '.join(f'{kind} {asked}' for kind, both in PRODUCTS[workload].items()
                                    if (asked := both[place])))]
    loops = [loop + WITH for loop in (RAW, 'trainer', 'fast', 'captured')]
    return bars + [same_bits(samples, 'P15', 'loops-with-products', loops)]


def never_slower(bars: list[Bar]) -> list[Bar]:
    """The bars, of which those of times ask only that a loop is not slower than the raw one."""
    return [dataclasses.replace(bar, target=NOT_SLOWER) if bar.workload and bar.sign == '>=' else bar for bar in bars]


def of_thousand_steps(data: dict) -> list[Bar]:
    """P15: the weights of all loops after 1000 steps, where `--bits` has trained so long."""
    same = data.get('same_bits_after_1000', {})
    loops = sorted({loop for workload in same.values() for loop in workload})
    bar = same_bits(Samples({'workloads': same, 'same_bits': same}), 'P15', 'after-1000-steps', loops)
    return [dataclasses.replace(bar, why='run with --bits')]


def same_bits(samples: Samples, name: str, of: str, variants: list[str]) -> Bar:
    """How many loops, over all workloads, end with the raw loop's weights to the bit. Noise is no excuse here."""
    said = [same for workload in samples.workloads for variant in variants
            if (same := samples.same_bits(workload, variant)) is not None]
    return Bar(
        name,
        f'{of}/workloads-with-the-bits-of-{RAW}',
        float(sum(said)) if said else None,
        '>=',
        len(said),
        why='steps did not compare them',
    )


def of_peers(samples: Samples, why: str, only: str = '') -> list[Bar]:
    """P6 and P7: against Python."""
    skipped = samples.data.get('peers_skipped', {})
    bars = []
    for name, workload, ours, theirs, target in PEERS:
        if not wanted(workload, only):
            continue
        what, ours = f'{workload}/{ours}/{theirs.replace(" ", "-")}', samples.as_given(workload, ours)
        missing = (
            skipped.get(theirs, why)
            if samples.least(workload, theirs) is None
            else f"its '{ours}' loop was not measured"
        )
        bars.append(
            Bar(
                name,
                what,
                samples.ratio(workload, ours, theirs),
                '>=' if target else '',
                target or 0.0,
                samples.spread(workload),
                missing,
                workload,
            )
        )
    return bars


def of_logging(samples: Samples, only: str = '') -> list[Bar]:
    """P8: what one logged scalar adds to a step that does nothing else, in nanoseconds."""
    if not wanted(NULL, only):
        return []
    value, spread = samples.data.get('logged_scalar_ns'), 0.0
    silent, logged, again = (samples.least(NULL, variant) for variant in ('silent', 'logged', 'silent again'))
    if silent and logged:
        value = 1000 * (logged - silent)
        spread = 1000 * abs(silent - (again or silent)) / P8_NS
    return [
        Bar('P8', 'logged-scalar-ns', value, '<=', P8_NS, spread, 'steps did not measure it', NULL if silent else '')
    ]


def of_extras(data: dict) -> list[Bar]:
    """P13 and P14: what steps measures beside the loops."""
    captured, checkpoint = data.get('cuda_captured_ratio'), data.get('checkpoint', {})
    stall, background, copy = (statistics.median(checkpoint.get(key) or [0])
                               for key in ('stall_ms', 'background_stall_ms', 'copy_ms'))
    why = 'steps did not measure it'
    return [Bar('P13', 'whole-step-cuda-graph', captured, '>=', 4, why='tools/dev bench gpu measures it'),
            Bar('P14', 'checkpoint-ms-a-MB', data.get('checkpoint_ms_per_mb'), why=why),
            Bar('P14', 'checkpoint-to-one-copy', stall / copy if copy else None, why=why),
            Bar('P14', 'background-checkpoint-to-one-copy', background / copy if copy else None, '<=', 1.5, why=why)]


def better(one: Bar, other: Bar) -> Bar:
    """Of two tries the one that is nearer to its bar."""
    if one.value is None or other.value is None:
        return other if one.value is None else one
    return min(one, other, key=lambda bar: (bar.fails(), bar.short_by()))


def order(bars: list[Bar]) -> list[Bar]:
    return sorted(bars, key=lambda bar: int(bar.name[1:]))
