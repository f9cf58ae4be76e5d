"""Plain PyTorch, and torch.compile on the whole of forward and loss."""

import time

import nets
import protocol
import torch


def loop(workload: str, compiled: bool):
    net, batches = nets.net_of(workload), nets.batches_of(workload)
    optimizer = nets.optimizer_of(workload, net.parameters())

    def loss_of(x, y):
        return nets.loss_of(net(x), y)

    forward = torch.compile(loss_of) if compiled else loss_of

    def run(steps: int) -> float:
        count = len(batches)
        began = time.perf_counter()
        for i in range(steps):
            x, y = batches[i % count]
            optimizer.zero_grad()
            forward(x, y).backward()
            optimizer.step()
        return (time.perf_counter() - began) / steps * 1e6
    return run


protocol.answer(f'PyTorch {torch.__version__}', {
    'pytorch': lambda workload: loop(workload, False),
    'torch.compile': lambda workload: None if 'cnn' in workload else loop(workload, True),
})
