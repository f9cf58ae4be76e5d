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


def net_of(workload: str) -> nn.Module:
    torch.manual_seed(1)
    net, _ = p.parts(workload)
    return Cnn() if net == 'mnist-cnn' else Mlp(p.MLPS[net][0])


def batches_of(workload: str) -> list:
    torch.manual_seed(2)
    net, _ = p.parts(workload)
    if net == 'mnist-cnn':
        return [
            (torch.randn(p.CNN_BATCH, 1, 28, 28), torch.randint(p.CLASSES, (p.CNN_BATCH,))) for _ in range(p.BATCHES)
        ]
    widths, size = p.MLPS[net]
    return [(torch.randn(size, widths[0]), torch.randint(widths[-1], (size,))) for _ in range(p.BATCHES)]


def optimizer_of(workload: str, parameters) -> torch.optim.Optimizer:
    _, rule = p.parts(workload)
    if rule == 'sgd':
        return torch.optim.SGD(parameters, lr=p.RATES['sgd'], momentum=p.MOMENTUM)
    return torch.optim.Adam(parameters, lr=p.RATES['adam'])


loss_of = F.cross_entropy
