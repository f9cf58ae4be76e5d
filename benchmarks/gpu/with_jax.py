"""The MLP of nets.hpp in JAX: a jitted step called from Python, and all steps in one call of lax.scan."""

import time

import jax
import jax.numpy as jnp

KEYS = jax.random.split(jax.random.PRNGKey(1), 5)
SIZES = ((784, 128), (128, 128), (128, 10))
net = [(jax.random.normal(key, size) / size[0] ** 0.5, jnp.zeros(size[1])) for key, size in zip(KEYS, SIZES)]
x = jax.random.normal(KEYS[3], (8, 64, 784))
y = jax.random.randint(KEYS[4], (8, 64), 0, 10)
STEPS = 1500


def loss_of(net, x, y):
    for weight, bias in net[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    scores = x @ net[-1][0] + net[-1][1]
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1).mean()


def step(state, i):
    net, one, two, count = state
    gradient = jax.grad(loss_of)(net, x[i % 8], y[i % 8])
    count += 1
    one = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, one, gradient)
    two = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, two, gradient)
    net = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / (1 - 0.9 ** count)) /
                       (jnp.sqrt(v / (1 - 0.999 ** count)) + 1e-8), net, one, two)
    return net, one, two, count


zeros = jax.tree.map(jnp.zeros_like, net)
start = (net, zeros, zeros, 0.0)
jitted = jax.jit(step)
scanned = jax.jit(lambda state: jax.lax.scan(lambda s, i: (step(s, i), None), state, jnp.arange(STEPS))[0])


def one_by_one():
    state = start
    for i in range(STEPS):
        state = jitted(state, i)
    return state


for name, run in (('jax', one_by_one), ('jax scan', lambda: scanned(start))):
    jax.block_until_ready(run())
    began = time.perf_counter()
    jax.block_until_ready(run())
    print('mlp', name, f'{(time.perf_counter() - began) / STEPS * 1e6:.2f}', sep='\t', flush=True)
