"""One picture of a run: a bar for every loop of every workload, on a logarithmic scale, as an SVG without dependencies.

    chart.py JSON SVG"""

import math
import pathlib
import sys
from html import escape

from samples import RAW, WITH, Samples, read

# Loop, its two colours (on a light and on a dark background), what it is. Ours share one hue, from pale to full.
LOOPS = [('raw', '#6b7280', '#9ca3af', 'LibTorch, the loop by hand'),
         ('raw + products', '#374151', '#d1d5db', 'LibTorch by hand, faster products'),
         ('hand-tuned', '#a8adb5', '#646b76', 'the same, flat buffers by hand'),
         ('twin', '#b45309', '#d98a3a', 'a trainer with virtual callbacks'),
         ('trainer', '#93b4f5', '#41639f', 'Fulgurite'),
         ('trainer + products', '#7ba3f3', '#3a5fa8', 'Fulgurite, faster products'),
         ('fast', '#4f7fe8', '#5b8def', 'Fulgurite, arena and batch loader'),
         ('fast + products', '#3f6fdc', '#78a2f5', 'arena, loader, faster products'),
         ('captured', '#1d3fb8', '#9cc2ff', 'Fulgurite, captured step'),
         ('captured + products', '#14297f', '#c3dbff', 'captured, faster products'),
         ('fastest', '#0a1650', '#e3eeff', 'captured, the fastest kernels'),
         ('pytorch', '#e2604a', '#e8755f', 'PyTorch'),
         ('torch.compile', '#f0a193', '#9c4a3c', 'torch.compile'),
         ('lightning barebones', '#b794d6', '#7d5ba0', 'Lightning, barebones'),
         ('lightning', '#7c3fae', '#b98be0', 'Lightning, defaults'),
         ('jax', '#0f8a6c', '#3db894', 'JAX, jitted step'),
         ('jax scan', '#6cc3a8', '#23705a', 'JAX, the whole loop')]
WIDTH, MARGIN, GAP = 1120, 28, 36
ROW, BAR, HEAD, AFTER = 17, 11, 28, 10  # heights: a line, its bar, a workload's name, the space below it
NAME, VALUE = 126, 118  # widths: a loop's name, its figures
TOP = 104


def drawn(samples: Samples) -> str:
    groups = [(workload, rows) for workload in samples.workloads if (rows := rows_of(samples, workload))]
    used = [loop for loop in LOOPS if any(loop[0] == row[0] for _, rows in groups for row in rows)]
    values = [least for _, rows in groups for _, least, _ in rows] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    scale = Scale(low, max(high, low + 1), (WIDTH - 2 * MARGIN - GAP) / 2 - NAME - VALUE)
    top = TOP + 20 * math.ceil(len(used) / 4)
    left, right = balanced(groups)
    columns, height = [], 0.0
    for number, column in enumerate((left, right)):
        x, y = MARGIN + number * ((WIDTH - 2 * MARGIN - GAP) / 2 + GAP), float(top)
        columns += axis(x, y, scale)
        for workload, rows in column:
            columns += group(workload, rows, x, y, scale)
            y += height_of(rows)
        columns += axis(x, y, scale)
        height = max(height, y)
    height += 44
    return (
        '\n'.join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" role="img" '
                'aria-label="Microseconds a training step of each loop on each workload">',
                style(),
                head(height, samples.data.get('threads', 1)),
                legend(used),
                *columns,
                foot(samples, height),
                '</svg>',
            ]
        )
        + '\n'
    )


def rows_of(samples: Samples, workload: str) -> list[tuple[str, float, float | None]]:
    """Each loop that was measured: its name, its microseconds, how many times as fast as the raw loop it is."""
    raw = samples.least(workload, RAW)
    if raw is None:
        return []
    return [
        (name, least, None if name == RAW else raw / least)
        for name, *_ in LOOPS
        if (least := samples.least(workload, name))
    ]


def height_of(rows: list) -> float:
    return HEAD + ROW * len(rows) + AFTER


def balanced(groups: list) -> tuple[list, list]:
    """Two columns, cut where they are most alike in height."""
    heights = [height_of(rows) for _, rows in groups]
    cut = min(range(len(groups) + 1), key=lambda n: abs(sum(heights[:n]) - sum(heights[n:])), default=0)
    return groups[:cut], groups[cut:]


class Scale:
    """Logarithmic: each power of ten is as wide as the next."""

    def __init__(self, low: int, high: int, width: float):
        self.low, self.high, self.width = low, high, width

    def at(self, value: float) -> float:
        return (math.log10(value) - self.low) / (self.high - self.low) * self.width

    def powers(self):
        return range(self.low, self.high + 1)


POWERS = {
    -3: '1 ns',
    -2: '10 ns',
    -1: '100 ns',
    0: '1 µs',
    1: '10 µs',
    2: '100 µs',
    3: '1 ms',
    4: '10 ms',
    5: '100 ms',
    6: '1 s',
    7: '10 s',
}


def axis(x: float, y: float, scale: Scale) -> list[str]:
    return [
        f'<text class="tick" x="{x + NAME + scale.at(10.0**power):.1f}" y="{y + 6:.1f}">{POWERS[power]}</text>'
        for power in scale.powers()
    ]


def micro(value: float) -> str:
    if value < 1:
        return f'{1000 * value:.0f} ns'
    return (
        f'{value:.1f} µs'
        if value < 10
        else f'{value:.0f} µs'
        if value < 1000
        else f'{value / 1000:.2f} ms'
        if value < 10000
        else f'{value / 1000:.1f} ms'
    )


def times(ratio: float) -> str:
    return f'×{ratio:.2f}' if ratio < 10 else f'×{ratio:.0f}'


def group(workload: str, rows: list, x: float, y: float, scale: Scale) -> list[str]:
    from_x, bottom = x + NAME, y + HEAD + ROW * len(rows)
    marks = [f'<text class="name" x="{x:.1f}" y="{y + 20:.1f}">{escape(workload)}</text>']
    for power in scale.powers():
        at = from_x + scale.at(10.0 ** power)
        marks.append(f'<path class="grid" d="M{at:.1f} {y + HEAD - 4:.1f}V{bottom:.1f}"/>')
    for number, (name, least, ratio) in enumerate(rows):
        line = y + HEAD + ROW * number
        length = max(2.0, scale.at(least))
        ours = ' class="ours"' if name.removesuffix(WITH) in ('trainer', 'fast', 'captured') else ''
        marks.append(f'<text{ours} x="{from_x - 8:.1f}" y="{line + 9.5:.1f}" text-anchor="end">{escape(name)}</text>')
        marks.append(
            f'<rect class="{css(name)}" x="{from_x:.1f}" y="{line:.1f}" width="{length:.1f}" height="{BAR}" rx="2"/>'
        )
        times_raw = f' <tspan class="times">{times(ratio)}</tspan>' if ratio else ''
        marks.append(
            f'<text class="value" x="{from_x + length + 6:.1f}" y="{line + 9.5:.1f}">{micro(least)}{times_raw}</text>'
        )
    return marks


def css(name: str) -> str:
    return 'c-' + name.replace(' + ', '-').replace(' ', '-').replace('.', '-')


def style() -> str:
    light = ''.join(f'.{css(name)}{{fill:{on_light}}}' for name, on_light, _, _ in LOOPS)
    dark = ''.join(f'.{css(name)}{{fill:{on_dark}}}' for name, _, on_dark, _ in LOOPS)
    return (
        '<style>text{font:11.5px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#374151}.card{fill:#fff;stroke:#e5e7eb}'
        '.title{font-size:21px;font-weight:650;fill:#111827}.name{font-size:13px;font-weight:650;fill:#111827}.ours{font-weight:600;fill:#111827}'
        '.sub,.tick{fill:#6b7280}.tick{font-size:9.5px;text-anchor:middle}.grid{stroke:#e5e7eb}.times{font-weight:650;fill:#111827}'
        + light
        + '@media(prefers-color-scheme:dark){text{fill:#cbd5e1}.card{fill:#11151c;stroke:#2a3140}.title,.name,.ours,.times{fill:#f3f4f6}'
        '.sub,.tick{fill:#94a3b8}.grid{stroke:#272e3a}' + dark + '}</style>'
    )


def head(height: float, threads: int) -> str:
    return (
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="12"/>'
        f'<text class="title" x="{MARGIN}" y="44">Microseconds a training step</text>'
        f'<text class="sub" x="{MARGIN}" y="65">Shorter is faster; the scale is logarithmic. × is how many times as fast as the loop by hand in the '
        f'same run; each bar is the fastest round, {"one thread" if threads == 1 else f"{threads} threads"}.</text>'
    )


def legend(used: list) -> str:
    marks = []
    for number, (name, _, _, meaning) in enumerate(used):
        x, y = MARGIN + number % 4 * 268, 84 + 20 * (number // 4)
        marks.append(
            f'<rect class="{css(name)}" x="{x}" y="{y}" width="12" height="12" rx="2"/><text x="{x + 18}" y="{y + 10}">{escape(meaning)}</text>'
        )
    return ''.join(marks)


def foot(samples: Samples, height: float) -> str:
    data = samples.data
    said = [
        f'commit {data.get("commit", "unknown")}',
        data.get('processor', ''),
        f'LibTorch {data.get("libtorch", "unknown")}',
        *data.get('peers', []),
    ]
    return f'<text class="sub" x="{MARGIN}" y="{height - 16:.0f}">{escape(" · ".join(word for word in said if word))}</text>'


if __name__ == '__main__':
    pathlib.Path(sys.argv[2]).write_text(drawn(Samples(read(pathlib.Path(sys.argv[1])))))
