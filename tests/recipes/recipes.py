"""The recipes of docs/building.md, section "In your own project", run from its very text in empty folders; prints TAP.

    recipes.py BUILD              each recipe once, with a program and a compiler of its own, but for one whose program
                                  packages.py builds
    recipes.py --all [RECIPE...]  each recipe, or those named, with both programs and with g++ and clang

Each recipe gets a folder with a copy of this repository in it, or clones one in the place of URL, and mine.cpp, which
is examples/first.cpp or examples/mlp.cpp as it stands, runs the lines of its `sh` block, and the program is started in
an empty folder. A warning is a failure. With --all the flags are those of the page. Otherwise half of the recipes take
the compiler of BUILD and half the other one, so that one run sees both, and most have a compiler that adds -O0 first on
the PATH: what the programs compute is not slow, compiling them is. RECIPES says which.

Then each is run once more with an empty program and a LibTorch whose CUDA libraries load (two empty ones do), which the
program must be linked with although nothing in it refers to them; where they do not load, as on a CPU installation, it
must not."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

PAGE = 'docs/building.md'
SECTION = '## In your own project'
# What a block in that language is saved as.
FILES = {'meson': 'meson.build', 'wrap': 'subprojects/fulgurite.wrap', 'cmake': 'CMakeLists.txt',
         'bodies': 'bodies.cpp'}


class Recipe(typing.NamedTuple):
    place: str  # where a project has this repository; empty: it clones it
    program: str  # what the short form builds: one of PROGRAMS; empty: only what packages.py builds
    own: bool  # with the compiler of the build folder, else with the other one
    level: str = '-O0'  # what is added to the page's flags
    gcc: bool = False  # with g++, whichever compiler the build folder has

    def compiler(self, build: str) -> str:
        own, *others = compilers(build)
        return 'g++' if self.gcc else own if self.own else (others or [own])[0]


PROGRAMS = ('first', 'mlp')
# One library is made by g++ at the level of the page: warnings out of our bodies come from no other.
RECIPES = {'Meson': Recipe('', 'mlp', own=False, level='', gcc=True),
           'CMake': Recipe('', 'first', own=True),
           'Meson, precompiled': Recipe('subprojects/fulgurite', 'first', own=True),
           'CMake, precompiled': Recipe('', 'mlp', own=True), 'pkg-config': Recipe('fulgurite', 'mlp', own=False),
           'CMake, installed': Recipe('fulgurite', '', own=True),
           'By hand': Recipe('fulgurite', 'first', own=True),
           'By hand, in two units': Recipe('fulgurite', 'first', own=False)}
TOOLS = {'Meson': ['git'], 'CMake': ['cmake', 'git'], 'CMake, precompiled': ['cmake', 'git'],
         'pkg-config': ['pkg-config'], 'CMake, installed': ['cmake'], 'By hand': ['pkg-config'],
         'By hand, in two units': ['pkg-config']}
NEEDED = ('CMakeLists.txt', 'LICENSE', 'README.md', 'benchmarks', 'cmake', 'examples', 'include', 'meson.build',
          'meson_options.txt', 'src', 'subprojects', 'tests', 'tools')
EMPTY = '#include <fulgurite/core/error.hpp>\nint main() {}\n'


def recipes() -> dict[str, list[tuple[str, str]]]:
    """Name -> its blocks (language, text), in the order of the page; a recipe begins with its name in bold."""
    text = (flags.ROOT / PAGE).read_text().split(SECTION + '\n', 1)[1].split('\n## ', 1)[0]
    parts = re.split(r'^\*\*([^*]+)\*\*', text, flags=re.M)
    block = re.compile(r'^```(\w+)\n(.*?)^```', re.S | re.M)
    found = {name: block.findall(body) for name, body in zip(parts[1::2], parts[2::2])}
    # The page does not repeat how the package that CMake finds is installed.
    installs = ''.join(line for line in dict(found['pkg-config'])['sh'].splitlines(True) if line.startswith('meson'))
    found['CMake, installed'].insert(0, ('sh', installs))
    return found


def copy_repository(target: pathlib.Path) -> None:
    target.mkdir(parents=True)
    for name in NEEDED:
        copy = shutil.copytree if (flags.ROOT / name).is_dir() else shutil.copy
        copy(flags.ROOT / name, target / name)


def version() -> str:
    text = (flags.INCLUDE / 'fulgurite' / 'core' / 'version.hpp').read_text()
    return re.search(r'^#define FULGURITE_VERSION "(.*)"$', text, re.M)[1]


class Workshop:
    """Runs recipes with a compiler, to whose arguments `level` is added."""

    def __init__(self, folder: pathlib.Path, compiler: str, level: str):
        self.folder = folder
        (folder / 'bin').mkdir(parents=True)
        cached = 'ccache ' if shutil.which('ccache') else ''
        for name in ('g++', 'c++'):
            self.script(folder / 'bin' / name, f'exec {cached}{shutil.which(compiler)} "$@" {level}')
        where = os.environ.get('CCACHE_DIR') or str(pathlib.Path.home() / '.cache' / 'ccache')
        venv = flags.ROOT / '.venv' / 'bin'
        self.environment = {'PATH': f'{folder}/bin:{venv}:{os.environ["PATH"]}', 'HOME': str(folder), 'CXX': 'g++',
                            'CMAKE_GENERATOR': 'Ninja', 'CCACHE_DIR': where, 'CCACHE_BASEDIR': str(folder),
                            'CCACHE_NOHASHDIR': '1', 'LANG': 'C.UTF-8', 'OMP_NUM_THREADS': '1'}
        for name in ('PIP_INDEX_URL', 'TMPDIR', 'SSL_CERT_FILE'):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    @staticmethod
    def script(path: pathlib.Path, line: str):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n{line}\n')
        path.chmod(0o755)

    def run(self, words, where: pathlib.Path, **more) -> subprocess.CompletedProcess:
        environment = {**self.environment, **more}
        return subprocess.run(words, cwd=where, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)

    def repository(self) -> pathlib.Path:
        """This repository as one that can be cloned."""
        repository = self.folder / 'repository'
        if not repository.exists():
            copy_repository(repository)
            who = ['-c', 'user.name=recipes', '-c', 'user.email=recipes@localhost', '-c', 'commit.gpgsign=false']
            for words in (['init', '--quiet', '--initial-branch=main'], ['add', '--all'],
                          [*who, 'commit', '--quiet', '--message=all']):
                done = self.run(['git', *words], repository)
                assert done.returncode == 0, done.stderr
        return repository

    def empty_library(self, file: pathlib.Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        made = self.run(['g++', '-shared', '-fPIC', '-xc++', '/dev/null', f'-Wl,-soname,{file.name}', '-o', str(file)],
                        self.folder)
        assert made.returncode == 0, made.stderr

    def cuda_libtorch(self) -> pathlib.Path:
        """A LibTorch as the one in use, but with CUDA libraries that load, which are empty."""
        torch = self.folder / 'site' / 'torch'
        if not torch.exists():
            (torch / 'lib').mkdir(parents=True)
            (torch / 'include').symlink_to(libtorch() / 'include')
            for entry in [*(libtorch() / 'lib').iterdir()]:
                if entry.name not in ('libtorch_cuda.so', 'libc10_cuda.so'):
                    (torch / 'lib' / entry.name).symlink_to(entry)
            if (libtorch().parent / 'nvidia').exists():
                (torch.parent / 'nvidia').symlink_to(libtorch().parent / 'nvidia')
            for name in ('libtorch_cuda.so', 'libc10_cuda.so'):
                self.empty_library(torch / 'lib' / name)
        return torch

    def project(self, recipe: str, program: str, libtorch: str) -> pathlib.Path:
        """A folder with the program, and a checkout where the recipe has one. The .venv of the checkout, else that of
        the folder, is the one in use, or says that LibTorch has CUDA (`cuda`), or is not there (`none`)."""
        project = self.folder / f'{recipe}{libtorch}'.replace(' ', '_').replace(',', '')
        place = RECIPES[recipe].place if recipe in RECIPES else 'fulgurite'
        if not project.exists():
            copy_repository(project / place) if place else project.mkdir()
            venv = project / place / '.venv'
            if libtorch == 'cuda':
                self.script(venv / 'bin' / 'python', f'echo {self.cuda_libtorch()}')
                # Without it tools/dev would make the .venv once more.
                self.script(venv / 'bin' / 'meson', f'exec "{flags.ROOT}/.venv/bin/meson" "$@"')
                shutil.copy(flags.ROOT / '.venv' / 'fulgurite.stamp', venv)
            elif libtorch != 'none':
                venv.symlink_to((flags.ROOT / '.venv').resolve())
        (project / 'mine.cpp').write_text(program)
        return project

    def build(self, name: str, blocks, program: str, libtorch: str = '') -> tuple[pathlib.Path | None, list[str]]:
        """The program that a recipe's blocks make in its project, and what is wrong."""
        project = self.project(name, program, libtorch)
        for language, text in blocks:
            if language in FILES:
                file = project / FILES[language]
                file.parent.mkdir(exist_ok=True)
                file.write_text(re.sub(r'\bURL\b', lambda _: f'file://{self.repository()}', text))
        commands = ''.join(text for language, text in blocks if language == 'sh')
        places = (project / 'build' / 'mine', project / 'mine')
        for path in places:
            path.unlink(missing_ok=True)
        done = self.run(['bash', '-euc', commands], project, HOME=str(project / 'home'))
        mine = next((path for path in places if path.exists()), None)
        if done.returncode != 0 or mine is None:
            said = done.stdout[-3000:] + done.stderr[-3000:]
            return None, [f'these lines ended with status {done.returncode}:\n{commands}{said}']
        said = re.sub(r'^Installing .*\n', '', done.stdout + done.stderr, flags=re.M)
        return mine, [f'there are warnings:\n{said[-6000:]}'] if re.search(r'\bwarning\b', said, re.I) else []

    def needs(self, program: pathlib.Path) -> str:
        said = self.run(['readelf', '-d', str(program)], self.folder).stdout
        return ' '.join(re.findall(r'\(NEEDED\).*\[(.*)\]', said))


def libtorch() -> pathlib.Path:
    ask = 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])'
    words = [flags.ROOT / '.venv' / 'bin' / 'python', '-c', ask]
    return pathlib.Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())


def trains(shop: Workshop, name: str, blocks, program: str) -> list[str]:
    mine, complaints = shop.build(name, blocks, (flags.ROOT / 'examples' / f'{program}.cpp').read_text())
    if mine is None:
        return complaints
    with tempfile.TemporaryDirectory(dir=shop.folder) as empty:
        ran = shop.run([str(mine)], pathlib.Path(empty))
        if ran.returncode != 0 or not list(pathlib.Path(empty).rglob('*.safetensors')):
            complaints.append(f'{program}.cpp in an empty folder: status {ran.returncode}, and no file or one of a '
                              f'checkpoint\n{ran.stdout[-999:]}{ran.stderr[-999:]}')
    load = f'import ctypes; ctypes.CDLL("{libtorch()}/lib/libtorch_cuda.so")'
    loads = shop.run([sys.executable, '-c', load], shop.folder).returncode == 0
    if loads != ('libtorch_cuda.so' in shop.needs(mine)):
        here = 'loads' if loads else 'does not load'
        complaints.append(f'libtorch_cuda.so {here} here, but the program needs: {shop.needs(mine)}')
    return complaints


def keeps_cuda(shop: Workshop, name: str, blocks) -> list[str]:
    mine, complaints = shop.build(name, blocks, EMPTY, libtorch='cuda')
    if mine is not None and 'libtorch_cuda.so' not in shop.needs(mine):
        complaints.append(f'CUDA libraries that load are not linked; the program needs: {shop.needs(mine)}')
    if mine is not None and shop.run([str(mine)], pathlib.Path('/')).returncode != 0:
        complaints.append('the program does not start from another folder')
    return complaints


def header_only(blocks) -> list[tuple[str, str]]:
    """A recipe's blocks with the headers alone in place of the library, for Meson and CMake."""
    return [(language, text.replace("'fulgurite-torch'", "'fulgurite-torch-header-only'").replace(
        'fulgurite::torch', 'fulgurite::torch_header_only')) for language, text in blocks]


CLI = '#include <fulgurite/cli.hpp>\nint main() { return fulgurite::cli::nearest("epoch", {"epochs"}).empty(); }\n'


def command_line(shop: Workshop, found: dict) -> list[str]:
    """The command line's target in CMake, then its package for pkg-config."""
    lists = dict(found['CMake'])['cmake'].replace('fulgurite::torch', 'fulgurite::cli')
    lists = lists.replace('COMPONENTS torch', 'COMPONENTS cli')
    mine, complaints = shop.build('CMake, cli', [('cmake', lists), *found['CMake'][1:]], CLI)
    if mine is None:
        return complaints
    lines = dict(found['pkg-config'])['sh'].replace('--libs fulgurite-torch', 'fulgurite-cli')
    lines = lines.replace('-O2', '-fsyntax-only')
    lines += 'touch mine\n'
    mine, complaints = shop.build('pkg-config, cli', [('sh', lines)], CLI)
    return complaints


def release_by_default(shop: Workshop) -> list[str]:
    cache = shop.folder / 'CMake' / 'build' / 'CMakeCache.txt'
    kind = re.search(r'^CMAKE_BUILD_TYPE:\w+=(.*)$', cache.read_text(), re.M) if cache.exists() else None
    return [] if kind and kind[1] == 'Release' else [f'the build type is {kind[1] if kind else "not there"}']


def compilers(build: str | None) -> list[str]:
    """That of a build folder, or g++, and the other one where it is installed."""
    found = [name for name in ('g++', flags.clang()) if shutil.which(name)]
    own = pathlib.Path(flags.command(pathlib.Path(build), 'bare_one.cpp')[0][0]).name if build else 'g++'
    return sorted(found, key=lambda name: ('clang' in name) != ('clang' in own))


def lacks(*tools: str) -> str:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return f' # SKIP {missing[0]} is not installed' if missing else ''


def all_of_it(folder: pathlib.Path, names: list[str]) -> None:
    """Recipes x programs x compilers, with the flags of the page."""
    found = recipes()
    cells = [(name, compiler) for name in names or RECIPES for compiler in compilers(None)]

    def work(cell):
        name, compiler = cell
        shop = Workshop(folder / f'{compiler} {name}'.replace(' ', '_').replace(',', ''), compiler, '')
        title = f'recipe {name} by {compiler}: first.cpp and mlp.cpp build without a warning and train'
        if skip := lacks(*TOOLS.get(name, [])):
            return title + skip, []
        complaints = [f'{program}.cpp: {line}' for program in PROGRAMS
                      for line in trains(shop, name, found.get(name, []), program)]
        print(f'# {name} by {compiler}: {"it does not hold" if complaints else "it holds"}', flush=True)
        shutil.rmtree(shop.folder)
        return title, complaints

    with open('/proc/meminfo') as memory:
        kilobytes = int(re.search(r'MemAvailable: *(\d+)', memory.read())[1])
    flags.tap(flags.each(work, cells, most=kilobytes // 6_000_000))  # a library and a precompiled header at once


def main() -> None:
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument('--all', action='store_true')
    arguments.add_argument('words', nargs='*')
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix='fulgurite-recipes-') as folder:
        if asked.all:
            if wrong := [name for name in asked.words if name not in RECIPES]:
                sys.exit(f'no recipe is called {wrong[0]!r}; recipes are {", ".join(map(repr, RECIPES))}')
            all_of_it(pathlib.Path(folder).resolve(), asked.words)
        each_once(pathlib.Path(folder).resolve(), asked.words[0])


def each_once(folder: pathlib.Path, build: str) -> None:
    found = recipes()
    shops = {recipe[2:]: Workshop(folder / f'shop{number}', recipe.compiler(build), recipe.level)
             for number, recipe in enumerate({recipe[2:]: recipe for recipe in RECIPES.values()}.values())}
    shop = shops[RECIPES['CMake'][2:]]
    shop.cuda_libtorch()
    for each in shops.values() if not lacks('git') else []:
        each.repository()
    every = {name: found.get(name, []) for name in RECIPES}

    def job(name):
        recipe = RECIPES[name]
        in_shop = shops[recipe[2:]]
        title = f'recipe {name}: {recipe.program}.cpp builds without a warning and trains in an empty folder'
        blocks = every[name]
        return title, name, blocks, lambda: trains(in_shop, name, blocks, recipe.program)

    # The longest first.
    jobs = [job(name) for name in sorted(every, key=lambda name: (RECIPES[name].own, RECIPES[name].level))
            if RECIPES[name].program]
    # The library is linked as its headers alone are, which is seen in a tenth of the time.
    every = {name: header_only(blocks) for name, blocks in every.items()}
    jobs += [(f'recipe {name}: loadable CUDA libraries are kept', name, every[name],
              lambda name=name: keeps_cuda(shop, name, every[name]))
             for name in every if 'precompiled' not in name and name != 'By hand, in two units']

    def work(job):
        title, name, blocks, check = job
        if skip := lacks(*TOOLS.get(name, [])):
            return title + skip, []
        return title, check() if blocks else [f'{PAGE} has no recipe "{name}"']

    results = flags.each(work, jobs)
    title = 'the command line: fulgurite::cli of CMake, fulgurite-cli of pkg-config'
    skip = lacks('cmake', 'pkg-config')
    if not skip and shop.run(['g++', '-std=c++20', '-fsyntax-only', '-include', 'CLI/CLI.hpp', '-include',
                              'toml++/toml.h', '-xc++', '/dev/null'], shop.folder).returncode != 0:
        skip = ' # SKIP CLI11 or toml++ is not installed'
    results.append((title + skip, [] if skip else command_line(shop, found)))
    if not lacks('cmake'):
        results.append(('recipe CMake: Release where no build type was asked for', release_by_default(shop)))
    results.append((f'{PAGE} has no recipe that is not tested', [name for name in found if name not in RECIPES]))
    flags.tap(results)


if __name__ == '__main__':
    main()
