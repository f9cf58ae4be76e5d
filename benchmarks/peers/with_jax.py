"""JAX: one step, jitted, its arguments donated, called from a loop in Python; and the whole loop in one call."""

import time

import protocol as p
import jax
import jax.numpy as np


def forward(weights, x):
    for matrix, bias in weights[:-1]:
        x = jax.nn.relu(x @ matrix + bias)
    matrix, bias = weights[-1]
    return x @ matrix + bias


def loss_of(weights, x, y):
    return -np.mean(np.take_along_axis(jax.nn.log_softmax(forward(weights, x)), y[:, None], axis=1))


def sgd(weights, state, x, y):
    gradients = jax.grad(loss_of)(weights, x, y)
    state = jax.tree.map(lambda v, g: p.MOMENTUM * v + g, state, gradients)
    return jax.tree.map(lambda w, v: w - p.RATES['sgd'] * v, weights, state), state


def adam(weights, state, x, y):
    mean, square, step = state
    gradients = jax.grad(loss_of)(weights, x, y)
    step = step + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradients)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradients)
    one, two = 1 - 0.9 ** step, 1 - 0.999 ** step
    moved = jax.tree.map(
        lambda w, m, s: w - p.RATES['adam'] * (m / one) / (np.sqrt(s / two) + 1e-8), weights, mean, square
    )
    return moved, (mean, square, step)


def prepared(workload: str):
    """The step, what it changes and the batches; None for a net that is not here."""
    net, rule = p.parts(workload)
    if net not in p.MLPS:
        return None
    widths, size = p.MLPS[net]
    keys = iter(jax.random.split(jax.random.key(1), 200))
    weights = [
        (
            jax.random.uniform(next(keys), (a, b), minval=-(a**-0.5), maxval=a**-0.5),
            jax.random.uniform(next(keys), (b,), minval=-(a**-0.5), maxval=a**-0.5),
        )
        for a, b in zip(widths, widths[1:])
    ]
    batches = [
        (jax.random.normal(next(keys), (size, widths[0])), jax.random.randint(next(keys), (size,), 0, widths[-1]))
        for _ in range(p.BATCHES)
    ]
    zeros = jax.tree.map(np.zeros_like, weights)
    now = {
        'weights': weights,
        'state': zeros if rule == 'sgd' else (zeros, jax.tree.map(np.zeros_like, weights), np.zeros(())),
    }
    return (sgd if rule == 'sgd' else adam), now, batches


def loop(workload: str):
    if (all_of_it := prepared(workload)) is None:
        return None
    step, now, batches = all_of_it
    step = jax.jit(step, donate_argnums=(0, 1))

    def run(steps: int) -> float:
        weights, state = now['weights'], now['state']
        count = len(batches)
        began = time.perf_counter()
        for i in range(steps):
            weights, state = step(weights, state, *batches[i % count])
        jax.block_until_ready(weights)
        taken = time.perf_counter() - began
        now['weights'], now['state'] = weights, state
        return taken / steps * 1e6
    return run


def whole_loop(workload: str):
    """`lax.scan` over the steps: Python is asked once for all of them."""
    if (all_of_it := prepared(workload)) is None:
        return None
    step, now, batches = all_of_it
    xs, ys = (np.stack(part) for part in zip(*batches))
    compiled = {}

    def steps_in_one(count: int):
        def whole(weights, state, xs, ys):
            def body(both, i):
                return step(*both, xs[i], ys[i]), None
            return jax.lax.scan(body, (weights, state), np.arange(count) % len(batches))[0]
        return jax.jit(whole, donate_argnums=(0, 1)).lower(now['weights'], now['state'], xs, ys).compile()

    def run(steps: int) -> float:
        began = time.perf_counter()
        if steps not in compiled:
            first = not compiled
            compiled[steps] = steps_in_one(steps)
            if not first:  # another number of steps is another program; the making of the first one is told
                began = time.perf_counter()
        now['weights'], now['state'] = compiled[steps](now['weights'], now['state'], xs, ys)
        jax.block_until_ready(now['weights'])
        return (time.perf_counter() - began) / steps * 1e6
    return run


p.answer(f'JAX {jax.__version__}', {'jax': loop, 'jax scan': whole_loop})
