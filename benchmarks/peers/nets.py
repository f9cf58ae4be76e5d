"""The nets and batches in PyTorch."""

import protocol as p
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


class Mlp(nn.Module):
    def __init__(self, widths: list[int]):
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        return self.three(torch.relu(self.two(torch.relu(self.one(x)))))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3)
        self.three, self.four = nn.Linear(32 * 5 * 5, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.one(x)), 2)
        x = torch.max_pool2d(torch.relu(self.two(x)), 2)
        return self.four(torch.relu(self.three(x.flatten(1))))


class Layer(nn.Module):
    """A layer of the character transformer (benchmarks/net_zoo.hpp)."""

    def __init__(self):
        super().__init__()
        width = p.GPT['width']
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        heads = p.GPT['heads']
        q, k, v = self.qkv(self.first(x)).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = x + self.mix(seen.transpose(1, 2).flatten(2))
        return mixed + self.narrow(F.gelu(self.wide(self.second(mixed))))


class CharGpt(nn.Module):
    def __init__(self):
        super().__init__()
        width, block = p.GPT['width'], p.GPT['block']
        self.letters, self.places = nn.Embedding(p.GPT['characters'], width), nn.Embedding(block, width)
        self.body = nn.Sequential(*(Layer() for _ in range(p.GPT['layers'])))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, p.GPT['characters'])
        self.register_buffer('numbers', torch.arange(block))

    def forward(self, x):
        return self.head(self.last(self.body(self.letters(x) + self.places(self.numbers)))).flatten(0, 1)


def convolution(before: int, after: int, size: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, size, stride, size // 2, bias=False)


class Residual(nn.Module):
    def __init__(self, before: int, after: int):
        super().__init__()
        stride = 1 if before == after else 2
        self.one, self.two = convolution(before, after, 3, stride), convolution(after, after, 3, 1)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.side = nn.Identity()
        if stride == 2:
            self.side = nn.Sequential(convolution(before, after, 1, stride), nn.BatchNorm2d(after))

    def forward(self, x):
        return torch.relu(self.norm2(self.two(torch.relu(self.norm1(self.one(x))))) + self.side(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = convolution(3, 64, 7, 2), nn.BatchNorm2d(64)
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        self.body = nn.Sequential(*(Residual(a, b) for a, b in zip(widths, widths[1:])))
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1))


LARGE = {'mnist-cnn': Cnn, 'char-gpt': CharGpt, 'resnet18': ResNet18}


def net_of(workload: str) -> nn.Module:
    torch.manual_seed(1)
    net, _ = p.parts(workload)
    return LARGE[net]() if net in LARGE else Mlp(p.MLPS[net][0])


def batches_of(workload: str) -> list:
    torch.manual_seed(2)
    net, _ = p.parts(workload)
    if net == 'char-gpt':
        size = p.GPT['batch'], p.GPT['block'] + 1
        texts = [torch.randint(p.GPT['characters'], size) for _ in range(p.GPT['batches'])]
        return [(text[:, :-1].contiguous(), text[:, 1:].flatten()) for text in texts]
    if net in p.PICTURES:
        size, shape, count = p.PICTURES[net]
        return [(torch.randn(size, *shape), torch.randint(p.CLASSES, (size,))) for _ in range(count)]
    widths, size = p.MLPS[net]
    return [(torch.randn(size, widths[0]), torch.randint(widths[-1], (size,))) for _ in range(p.BATCHES)]


def optimizer_of(workload: str, parameters) -> torch.optim.Optimizer:
    _, rule = p.parts(workload)
    if rule == 'sgd':
        return torch.optim.SGD(parameters, lr=p.RATES['sgd'], momentum=p.MOMENTUM)
    return torch.optim.Adam(parameters, lr=p.RATES['adam'])


loss_of = F.cross_entropy
