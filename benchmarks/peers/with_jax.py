"""JAX: one step, jitted, its arguments donated, called from a loop in Python; and the whole loop in one call."""

import functools
import time

import protocol as p
import jax
import jax.numpy as np


def linear(map_of, x):
    matrix, bias = map_of
    return x @ matrix + bias


def mlp(weights, x):
    for layer in weights[:-1]:
        x = jax.nn.relu(linear(layer, x))
    return linear(weights[-1], x)


def normalized(scale_of, x):
    scale, shift = scale_of
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def gpt(weights, x):
    """The character transformer, logits of all places one after the other."""
    x = weights['letters'][x] + weights['places']
    for layer in weights['layers']:
        parts = linear(layer['qkv'], normalized(layer['first'], x))
        q, k, v = np.moveaxis(parts.reshape(*parts.shape[:2], 3, p.GPT['heads'], -1), 2, 0)
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(layer['mix'], seen.reshape(x.shape))
        wide = jax.nn.gelu(linear(layer['wide'], normalized(layer['second'], x)), approximate=False)
        x = x + linear(layer['narrow'], wide)
    logits = linear(weights['head'], normalized(weights['last'], x))
    return logits.reshape(-1, logits.shape[-1])


def loss_of(forward):
    def loss(weights, x, y):
        return -np.mean(np.take_along_axis(jax.nn.log_softmax(forward(weights, x)), y[:, None], axis=1))
    return loss


def sgd(loss, weights, state, x, y):
    gradients = jax.grad(loss)(weights, x, y)
    state = jax.tree.map(lambda v, g: p.MOMENTUM * v + g, state, gradients)
    return jax.tree.map(lambda w, v: w - p.RATES['sgd'] * v, weights, state), state


def adam(loss, weights, state, x, y):
    mean, square, step = state
    gradients = jax.grad(loss)(weights, x, y)
    step = step + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradients)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradients)
    one, two = 1 - 0.9 ** step, 1 - 0.999 ** step
    moved = jax.tree.map(
        lambda w, m, s: w - p.RATES['adam'] * (m / one) / (np.sqrt(s / two) + 1e-8), weights, mean, square
    )
    return moved, (mean, square, step)


def new_map(keys, a: int, b: int):
    return tuple(jax.random.uniform(next(keys), shape, minval=-(a**-0.5), maxval=a**-0.5) for shape in ((a, b), (b,)))


def new_scale(width: int):
    return np.ones(width), np.zeros(width)


def new_gpt(keys):
    width = p.GPT['width']
    layers = [
        {
            'first': new_scale(width),
            'second': new_scale(width),
            'qkv': new_map(keys, width, 3 * width),
            'mix': new_map(keys, width, width),
            'wide': new_map(keys, width, 4 * width),
            'narrow': new_map(keys, 4 * width, width),
        }
        for _ in range(p.GPT['layers'])
    ]
    return {
        'letters': jax.random.normal(next(keys), (p.GPT['characters'], width)),
        'places': jax.random.normal(next(keys), (p.GPT['block'], width)),
        'layers': layers,
        'last': new_scale(width),
        'head': new_map(keys, width, p.GPT['characters']),
    }


def text_batches(keys):
    shape = p.GPT['batch'], p.GPT['block'] + 1
    texts = [jax.random.randint(next(keys), shape, 0, p.GPT['characters']) for _ in range(p.GPT['batches'])]
    return [(text[:, :-1], text[:, 1:].reshape(-1)) for text in texts]


def prepared(workload: str):
    """The step, what it changes and the batches; None for a net that is not here."""
    net, rule = p.parts(workload)
    keys = iter(jax.random.split(jax.random.key(1), 200))
    if net == 'char-gpt':
        forward, weights, batches = gpt, new_gpt(keys), text_batches(keys)
    elif net in p.MLPS:
        widths, size = p.MLPS[net]
        forward, weights = mlp, [new_map(keys, a, b) for a, b in zip(widths, widths[1:])]
        batches = [
            (jax.random.normal(next(keys), (size, widths[0])), jax.random.randint(next(keys), (size,), 0, widths[-1]))
            for _ in range(p.BATCHES)
        ]
    else:
        return None
    zeros = jax.tree.map(np.zeros_like, weights)
    now = {
        'weights': weights,
        'state': zeros if rule == 'sgd' else (zeros, jax.tree.map(np.zeros_like, weights), np.zeros(())),
    }
    return functools.partial(sgd if rule == 'sgd' else adam, loss_of(forward)), now, batches


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
            if not first:  # another number of steps is another program; the making of the first one is reported
                began = time.perf_counter()
        now['weights'], now['state'] = compiled[steps](now['weights'], now['state'], xs, ys)
        jax.block_until_ready(now['weights'])
        return (time.perf_counter() - began) / steps * 1e6
    return run


p.answer(f'JAX {jax.__version__}', {'jax': loop, 'jax scan': whole_loop})
