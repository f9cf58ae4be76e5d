"""docs/hooks.md, context.md, options.md and callbacks.md are as tools/reference.py writes them, and what they list has
its comment; prints TAP."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

sys.path.insert(0, str(flags.ROOT / 'tools'))
import reference  # noqa: E402

pages = reference.pages()
stale = [f'{path.relative_to(flags.ROOT)} is not what the headers say: python3 tools/reference.py write'
         for path, text in pages.items() if not path.exists() or path.read_text() != text]
flags.tap([('hooks, contexts, options and callbacks can be read, and have their comments', reference.mistakes),
           ('the pages of reference are as the headers say', stale)])
