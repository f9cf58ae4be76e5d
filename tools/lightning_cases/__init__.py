"""The specification's cases on PyTorch Lightning; each module registers those of one section."""

import importlib
import pathlib

from .base import cases, pl, torch
from .text import canonical

for module in sorted(pathlib.Path(__file__).parent.glob('[a-z]*.py')):
    importlib.import_module(f'{__name__}.{module.stem}')
versions = f'Lightning {pl.__version__}, torch {torch.__version__}'
__all__ = ['canonical', 'cases', 'versions']
