"""JAX: one step, jitted, its arguments donated, called from a loop in Python."""

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
    moved = jax.tree.map(lambda w, m, s: w - p.RATES['adam'] * (m / one) / (np.sqrt(s / two) + 1e-8), weights, mean, square)
    return moved, (mean, square, step)


def loop(workload: str):
    net, rule = p.parts(workload)
    if net not in p.MLPS:
        return None
    widths, size = p.MLPS[net]
    keys = iter(jax.random.split(jax.random.key(1), 200))
    weights = [(jax.random.uniform(next(keys), (a, b), minval=-a ** -0.5, maxval=a ** -0.5),
                jax.random.uniform(next(keys), (b,), minval=-a ** -0.5, maxval=a ** -0.5)) for a, b in zip(widths, widths[1:])]
    batches = [(jax.random.normal(next(keys), (size, widths[0])), jax.random.randint(next(keys), (size,), 0, widths[-1]))
               for _ in range(p.BATCHES)]
    zeros = jax.tree.map(np.zeros_like, weights)
    now = {'weights': weights, 'state': zeros if rule == 'sgd' else (zeros, jax.tree.map(np.zeros_like, weights), np.zeros(()))}
    step = jax.jit(sgd if rule == 'sgd' else adam, donate_argnums=(0, 1))

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


p.answer(f'JAX {jax.__version__}', {'jax': loop})
