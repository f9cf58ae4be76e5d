"""The samples of a run, as benchmarks/steps writes them: minima, ratios, and how far two equal loops are apart."""

import json
import pathlib
import statistics

RAW, AGAIN = 'raw', 'raw again'
WITH = ' + products'  # a loop whose matrix products may be faster kernels with the same bits


class Samples:
    """Microseconds a step of every variant of every workload, one a round."""

    def __init__(self, data: dict):
        self.data = data
        self.workloads: dict[str, dict[str, list[float]]] = data.get('workloads', {})

    def least(self, workload: str, variant: str) -> float | None:
        taken = self.workloads.get(workload, {}).get(variant)
        return min(taken) if taken else None

    def as_given(self, workload: str, variant: str) -> str:
        """The loop as its users have it: with faster products where the program has them."""
        return variant + WITH if self.workloads.get(workload, {}).get(variant + WITH) else variant

    def speed(self, workload: str, variant: str) -> float | None:
        """Additions and multiplications of matrix products, in 10^9 a second of the whole step."""
        operations, least = self.data.get('product_operations', {}).get(workload), self.least(workload, variant)
        return operations / least / 1000 if operations and least else None

    def median(self, workload: str, variant: str) -> float | None:
        taken = self.workloads.get(workload, {}).get(variant)
        return statistics.median(taken) if taken else None

    def spread(self, workload: str) -> float:
        """How far the minima of two equal loops are apart: what is nearer to 1 than this is no difference."""
        one, other = self.least(workload, RAW), self.least(workload, AGAIN)
        return abs(one / other - 1) if one and other else 0.0

    def ratio(self, workload: str, variant: str, to: str = RAW) -> float | None:
        """How many times as fast `variant` is as `to`; 1 where the difference is below the spread."""
        slow, fast = self.least(workload, to), self.least(workload, variant)
        if not slow or not fast:
            return None
        found = slow / fast
        return 1.0 if abs(found - 1) < self.spread(workload) else found

    def same_bits(self, workload: str, variant: str) -> bool | None:
        """Whether its weights are those of the raw loop."""
        return self.data.get('same_bits', {}).get(workload, {}).get(variant)


def read(file: pathlib.Path) -> dict:
    return json.loads(file.read_text())


def write(file: pathlib.Path, data: dict) -> None:
    """A list of samples is a line: such a file can be read by a person, too."""
    def lines(value, indent: int) -> str:
        if not isinstance(value, dict) or not value:
            return json.dumps(value)
        pad = '  ' * (indent + 1)
        inner = ',\n'.join(f'{pad}{json.dumps(key)}: {lines(each, indent + 1)}' for key, each in value.items())
        return '{\n' + inner + '\n' + '  ' * indent + '}'
    file.write_text(lines(data, 0) + '\n')
