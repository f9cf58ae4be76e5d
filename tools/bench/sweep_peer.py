"""The members of examples/sweep.cpp in plain PyTorch, a process for each: what a sweep is without one.

    sweep_peer.py member RATE WIDTH EPOCHS FOLDER       trains one network, in one thread; prints what it took
    sweep_peer.py all SWEEP.CSV EPOCHS FOLDER [COUNT]   trains COUNT (8) members of a table that the example has
                                                        written, as many at a time as there are cores, and prints what
                                                        all members of the table would take

FOLDER has MNIST's files. Compare with `examples/sweep --whole --epochs EPOCHS --data FOLDER`, which prints its own
seconds. Where the machine has other work, too, compare the seconds of processors.
"""

import csv
import gzip
import os
import pathlib
import resource
import subprocess
import sys
import time


def processor_seconds(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def member(rate: float, width: int, epochs: int, folder: pathlib.Path) -> None:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    imported = processor_seconds(resource.RUSAGE_SELF)
    part = 'train' if (folder / 'train-images-idx3-ubyte.gz').exists() else 't10k'
    images = gzip.decompress((folder / f'{part}-images-idx3-ubyte.gz').read_bytes())[16:]
    labels = gzip.decompress((folder / f'{part}-labels-idx1-ubyte.gz').read_bytes())[8:]
    x = torch.frombuffer(bytearray(images), dtype=torch.uint8).view(-1, 1, 28, 28).float().div_(255)
    y = torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()
    order = torch.randperm(len(y))
    count = len(y) // 5
    x_val, y_val, x, y = x[order[:count]], y[order[:count]], x[order[count:]], y[order[count:]]

    nn = torch.nn
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(net.parameters(), rate)
    accuracy, ready = 0.0, processor_seconds(resource.RUSAGE_SELF)
    for _ in range(epochs):
        net.train()
        for chosen in torch.randperm(len(y)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[chosen]), y[chosen]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(a).argmax(1) == b).sum() for a, b in zip(x_val.split(64), y_val.split(64)))
        accuracy = float(right) / count
    end = processor_seconds(resource.RUSAGE_SELF)
    print(f'{end:.3f} {imported:.3f} {end - ready:.3f} {accuracy:.4f} {len(y)} {count}')


def compare(table: pathlib.Path, epochs: int, folder: pathlib.Path, count: int) -> None:
    rows = list(csv.DictReader(table.open()))
    by_width = sorted(rows, key=lambda row: int(row['width']))
    chosen = [by_width[(2 * i + 1) * len(rows) // (2 * count)] for i in range(count)]  # of all widths alike
    cores = len(os.sched_getaffinity(0))
    began = time.perf_counter()
    waiting, running, said = list(chosen), [], []
    while waiting or running:
        while waiting and len(running) < cores:
            row = waiting.pop(0)
            words = [sys.executable, __file__, 'member', row['rate'], row['width'], str(epochs), str(folder)]
            running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        first = running.pop(0)
        said.append([float(word) for word in first.communicate()[0].split()])
        if first.returncode:
            sys.exit('a process has failed')
    wall, scale = time.perf_counter() - began, len(rows) / count
    whole, imported, training, _, train, validation = (sum(column) / count for column in zip(*said))
    print(
        f'{count} processes, {int(train)} images to train on and {int(validation)} to validate, {epochs} epochs, on '
        f'{cores} cores: {wall:.1f} s. Processor seconds of one: {whole:.2f}, of which importing torch {imported:.2f}, '
        f'training {training:.2f}. {len(rows)} of them: {wall * scale:.1f} s, processor seconds {whole * len(rows):.1f}, '
        f'of training alone {training * len(rows):.1f}'
    )


if __name__ == '__main__':
    kind, *words = sys.argv[1:] or ['']
    if kind == 'member' and len(words) == 4:
        member(float(words[0]), int(words[1]), int(words[2]), pathlib.Path(words[3]))
    elif kind == 'all' and len(words) in (3, 4):
        compare(pathlib.Path(words[0]), int(words[1]), pathlib.Path(words[2]), int(words[3]) if words[3:] else 8)
    else:
        sys.exit(__doc__)
