"""Values as text, in the form of tests/conformance/observed.hpp."""

import math


def canonical(value) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return 'none'
    if isinstance(value, bool):
        return str(value).lower()
    if hasattr(value, 'item'):  # a tensor
        value = value.item()
    if isinstance(value, float):
        return 'nan' if math.isnan(value) else f'{value + 0.0:.6g}'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return '(' + ','.join(map(canonical, value)) + ')'
    return ' '.join('[' + canonical(item) + ']' if isinstance(item, list) else canonical(item) for item in value) or '-'
