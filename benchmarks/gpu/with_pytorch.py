"""The nets of nets.hpp in PyTorch: eager, with Adam's fused kernel, as one graph of the whole step, and compiled.

    with_pytorch.py [WORKLOAD...]   prints lines of WORKLOAD, loop and microseconds a step
"""

import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CHARACTERS = 96


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(784, 128), nn.Linear(128, 128), nn.Linear(128, 10)

    def forward(self, x, y):
        return F.cross_entropy(self.three(torch.relu(self.two(torch.relu(self.one(x.flatten(1)))))), y)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.three, self.four = nn.Linear(64 * 5 * 5, 128), nn.Linear(128, 10)

    def forward(self, x, y):
        x = F.max_pool2d(torch.relu(self.one(x)), 2)
        x = F.max_pool2d(torch.relu(self.two(x)), 2)
        return F.cross_entropy(self.four(torch.relu(self.three(x.flatten(1)))), y)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        parts = self.qkv(self.first(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.mix(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Gpt(nn.Module):
    def __init__(self, width, heads, layers, block):
        super().__init__()
        self.letters, self.places = nn.Embedding(CHARACTERS, width), nn.Embedding(block, width)
        self.body = nn.Sequential(*[Layer(width, heads) for _ in range(layers)], nn.LayerNorm(width))
        self.head = nn.Linear(width, CHARACTERS)
        self.register_buffer('numbers', torch.arange(block))

    def forward(self, x, y):
        x = self.body(self.letters(x) + self.places(self.numbers))
        return F.cross_entropy(self.head(x).flatten(0, 1), y.flatten())


class Residual(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.one, self.norm1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.two, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        side = [] if stride == 1 else [nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out)]
        self.side = nn.Sequential(*side)

    def forward(self, x):
        y = self.norm2(self.two(torch.relu(self.norm1(self.one(x)))))
        return torch.relu(y + self.side(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        body, into = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
        for out in (64, 128, 256, 512):
            body += [Residual(into, out, 1 if into == out else 2), Residual(out, out, 1)]
            into = out
        self.body, self.head = nn.Sequential(*body), nn.Linear(512, 10)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.body(x).mean((2, 3))), y)


def images(rows, channels, size):
    return lambda: (torch.randn(rows, channels, size, size).cuda(), torch.randint(10, (rows,)).cuda())


def text(rows, block):
    return lambda: tuple(torch.randint(CHARACTERS, (rows, block)).cuda() for _ in range(2))


# name: net, batch, bf16, steps to warm up, steps that are timed; as in nets.hpp
WORKLOADS = {
    'mlp': (Mlp, images(64, 1, 28), False, 200, 1500),
    'cnn': (Cnn, images(64, 1, 28), False, 200, 1000),
    'char-gpt': (lambda: Gpt(128, 4, 4, 64), text(12, 64), False, 100, 400),
    'char-gpt-bf16': (lambda: Gpt(128, 4, 4, 64), text(12, 64), True, 100, 400),
    'nanogpt-bf16': (lambda: Gpt(384, 6, 6, 256), text(64, 256), True, 50, 150),
    'resnet18-bf16': (ResNet18, images(128, 3, 32), True, 50, 150),
}
LOOPS = ('pytorch', 'pytorch fused', 'pytorch graph', 'torch.compile')


def step_of(net, adam, bf16):
    def step(x, y):
        adam.zero_grad(set_to_none=True)
        with torch.autocast('cuda', dtype=torch.bfloat16, enabled=bf16):
            loss = net(x, y)
        loss.backward()
        adam.step()
        return loss
    return step


def as_one_graph(step, adam, first):
    """The whole step as a CUDA graph, as PyTorch's documents record one."""
    fixed = [tensor.clone() for tensor in first]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step(*fixed)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    adam.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step(*fixed)

    def replay(x, y):
        fixed[0].copy_(x)
        fixed[1].copy_(y)
        graph.replay()
    return replay


def microseconds(workload: str, loop: str) -> float:
    make, draw, bf16, warm_up, steps = WORKLOADS[workload]
    torch.manual_seed(1)
    net, batches = make().cuda(), [draw() for _ in range(8)]
    adam = torch.optim.Adam(net.parameters(), 1e-3, fused=loop != 'pytorch', capturable=loop == 'pytorch graph')
    step = step_of(torch.compile(net) if loop == 'torch.compile' else net, adam, bf16)
    if loop == 'pytorch graph':
        step = as_one_graph(step, adam, batches[0])
    for i in range(warm_up):
        step(*batches[i % 8])
    torch.cuda.synchronize()
    began = time.perf_counter()
    for i in range(steps):
        step(*batches[i % 8])
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps * 1e6


for workload in sys.argv[1:] or WORKLOADS:
    for loop in LOOPS:
        if loop == 'torch.compile' and workload not in ('mlp', 'nanogpt-bf16'):
            continue  # each takes half a minute to compile
        try:
            print(workload, loop, f'{microseconds(workload, loop):.2f}', sep='\t', flush=True)
        except Exception as error:  # a peer that cannot run is a line of the table
            print(workload, loop, 'nan', f'{type(error).__name__}: {error}'.splitlines()[0], sep='\t', flush=True)
