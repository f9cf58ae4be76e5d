"""The recipes of docs/building.md, section "In your own project", run from its very text in empty folders; prints TAP.

    recipes.py BUILD     uses the compiler of that build folder

Each recipe gets a folder with a copy of this repository in it and mine.cpp, runs the lines of its `sh` block, and the
program is started from another folder. A compiler that adds -O0 stands first on the PATH: what the program computes is
not slow, compiling it is.

Then each is run once more with an empty program and a LibTorch whose CUDA libraries load (two empty ones do), which the
program must be linked with although nothing in it refers to them; where they do not load, as on a CPU installation, it
must not."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flags  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PAGE = 'docs/building.md'
SECTION = '## In your own project'
FILES = {'meson': 'meson.build', 'cmake': 'CMakeLists.txt'}  # what a block in that language is saved as
PLACES = {'Meson': 'subprojects/fulgurite', 'CMake': 'fulgurite', 'Meson, compiled': 'subprojects/fulgurite',
          'CMake, compiled': 'fulgurite', 'Installed': 'fulgurite', 'By hand': 'fulgurite'}
TOOLS = {'CMake': ['cmake'], 'CMake, compiled': ['cmake'],
         'Installed': ['pkg-config'], 'By hand': ['pkg-config'], 'CMake, installed': ['cmake']}
NEEDED = ('CMakeLists.txt', 'LICENSE', 'README.md', 'benchmarks', 'cmake', 'examples', 'include', 'meson.build',
          'meson_options.txt', 'src', 'subprojects', 'tests', 'tools')
EMPTY = '#include <fulgurite/core/error.hpp>\nint main() {}\n'


def recipes() -> dict[str, list[tuple[str, str]]]:
    """Name -> its blocks (language, text), in the order of the page; a recipe begins with its name in bold."""
    text = (flags.ROOT / PAGE).read_text().split(SECTION + '\n', 1)[1].split('\n## ', 1)[0]
    parts = re.split(r'^\*\*([^*]+)\*\*', text, flags=re.M)
    block = re.compile(r'^```(\w+)\n(.*?)^```', re.S | re.M)
    return {name: block.findall(body) for name, body in zip(parts[1::2], parts[2::2])}


class Workshop:
    def __init__(self, folder: pathlib.Path, compiler: str):
        self.folder, self.compiler = folder, compiler
        (folder / 'bin').mkdir()
        for name in ('g++', 'c++'):
            self.script(folder / 'bin' / name, f'exec {compiler} "$@" -O0')
        where = os.environ.get('CCACHE_DIR') or str(pathlib.Path.home() / '.cache' / 'ccache')
        venv = flags.ROOT / '.venv' / 'bin'
        self.environment = {'PATH': f'{folder}/bin:{venv}:{os.environ["PATH"]}', 'HOME': str(folder), 'CXX': 'g++',
                            'CMAKE_GENERATOR': 'Ninja', 'CCACHE_DIR': where, 'CCACHE_BASEDIR': str(folder),
                            'CCACHE_NOHASHDIR': '1', 'LANG': 'C.UTF-8'}
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
                              stdin=subprocess.DEVNULL, timeout=900)

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
                words = ['g++', '-shared', '-fPIC', '-xc++', '/dev/null', '-Wl,-soname,' + name, '-o', f'lib/{name}']
                made = self.run(words, torch)
                assert made.returncode == 0, made.stderr
        return torch

    def project(self, recipe: str, place: str, program: str, cuda: bool) -> pathlib.Path:
        """A folder with the program, and a checkout whose .venv is the one in use, or says that LibTorch has CUDA."""
        project = self.folder / (recipe.replace(' ', '_').replace(',', '') + ('_cuda' if cuda else ''))
        checkout = project / place
        for name in NEEDED:
            copy = shutil.copytree if (flags.ROOT / name).is_dir() else shutil.copy
            checkout.mkdir(parents=True, exist_ok=True)
            copy(flags.ROOT / name, checkout / name)
        (project / 'mine.cpp').write_text(program)
        if cuda:
            self.script(checkout / '.venv' / 'bin' / 'python', f'echo {self.cuda_libtorch()}')
            shutil.copy(flags.ROOT / '.venv' / 'fulgurite.stamp', checkout / '.venv')
        else:
            (checkout / '.venv').symlink_to((flags.ROOT / '.venv').resolve())
        return project

    def build(self, name: str, blocks, program: str, cuda: bool = False) -> tuple[pathlib.Path | None, list[str]]:
        """The program that a recipe's blocks make in a new project."""
        project = self.project(name, PLACES.get(name, 'fulgurite'), program, cuda)
        for language, text in blocks:
            if language in FILES:
                (project / FILES[language]).write_text(text)
        commands = ''.join(text for language, text in blocks if language == 'sh')
        done = self.run(['bash', '-euc', commands], project, HOME=str(project / 'home'))
        mine = next((path for path in (project / 'build' / 'mine', project / 'mine') if path.exists()), None)
        if done.returncode != 0 or mine is None:
            said = done.stdout[-3000:] + done.stderr[-3000:]
            return None, [f'these lines ended with status {done.returncode}:\n{commands}{said}']
        return mine, []

    def needs(self, program: pathlib.Path) -> str:
        said = self.run(['readelf', '-d', str(program)], self.folder).stdout
        return ' '.join(re.findall(r'\(NEEDED\).*\[(.*)\]', said))


def libtorch() -> pathlib.Path:
    ask = 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])'
    words = [flags.ROOT / '.venv' / 'bin' / 'python', '-c', ask]
    return pathlib.Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())


def trains(shop: Workshop, name: str, blocks) -> list[str]:
    mine, complaints = shop.build(name, blocks, (HERE / 'mine.cpp').read_text())
    if mine is None:
        return complaints
    ran = shop.run([str(mine)], pathlib.Path('/'))
    if ran.returncode != 0 or 'slope 2.00' not in ran.stdout:
        complaints.append(f'{mine}: status {ran.returncode}\n{ran.stdout[-999:]}{ran.stderr[-999:]}')
    load = f'import ctypes; ctypes.CDLL("{libtorch()}/lib/libtorch_cuda.so")'
    loads = shop.run([sys.executable, '-c', load], shop.folder).returncode == 0
    if loads != ('libtorch_cuda.so' in shop.needs(mine)):
        here = 'loads' if loads else 'does not load'
        complaints.append(f'libtorch_cuda.so {here} here, but the program needs: {shop.needs(mine)}')
    return complaints


def keeps_cuda(shop: Workshop, name: str, blocks) -> list[str]:
    mine, complaints = shop.build(name, blocks, EMPTY, cuda=True)
    if mine is not None and 'libtorch_cuda.so' not in shop.needs(mine):
        complaints.append(f'CUDA libraries that load are not linked; the program needs: {shop.needs(mine)}')
    if mine is not None and shop.run([str(mine)], pathlib.Path('/')).returncode != 0:
        complaints.append('the program does not start from another folder')
    return complaints


def found_by_cmake(found: dict) -> list[tuple[str, str]]:
    """The recipe for CMake, with the installed package in place of the repository."""
    install = [line for line in dict(found['Installed'])['sh'].splitlines() if line.startswith('meson')]
    lists = dict(found['CMake'])['cmake'].replace('add_subdirectory(fulgurite)', 'find_package(fulgurite 0.1 REQUIRED)')
    commands = '\n'.join(line.replace('-C build', '-C made').replace('setup build', 'setup made') for line in install)
    commands += '\ncmake -B build -DCMAKE_PREFIX_PATH=$HOME/.local\ncmake --build build\n'
    return [('cmake', lists), ('sh', commands)]


CLI = '#include <fulgurite/cli.hpp>\nint main() { return fulgurite::cli::nearest("epoch", {"epochs"}).empty(); }\n'


def command_line(shop: Workshop, found: dict) -> list[str]:
    """The command line's target in CMake, then its package for pkg-config."""
    lists = dict(found['CMake'])['cmake'].replace('fulgurite::torch', 'fulgurite::cli')
    mine, complaints = shop.build('CMake, cli', [('cmake', lists), *found['CMake'][1:]], CLI)
    if mine is None:
        return complaints
    lines = dict(found['Installed'])['sh'].replace('fulgurite-torch)', 'fulgurite-cli)').replace('-O2', '-fsyntax-only')
    lines += 'touch mine\n'
    mine, complaints = shop.build('Installed, cli', [('sh', lines)], CLI)
    return complaints


def release_by_default(shop: Workshop) -> list[str]:
    cache = shop.folder / 'CMake' / 'build' / 'CMakeCache.txt'
    kind = re.search(r'^CMAKE_BUILD_TYPE:\w+=(.*)$', cache.read_text(), re.M) if cache.exists() else None
    return [] if kind and kind[1] == 'Release' else [f'the build type is {kind[1] if kind else "not there"}']


def versions() -> list[str]:
    meson = re.search(r"version: '([\d.]+)'", (flags.ROOT / 'meson.build').read_text())[1]
    package = (flags.ROOT / 'cmake' / 'fulguriteConfigVersion.cmake').read_text()
    cmake = re.search(r'PACKAGE_VERSION ([\d.]+)', package)[1]
    return [] if meson == cmake else [f'meson.build says {meson}, cmake/fulguriteConfigVersion.cmake {cmake}']


def main() -> None:
    found = recipes()
    how = flags.command(pathlib.Path(sys.argv[1]), 'bare_one.cpp')
    with tempfile.TemporaryDirectory(prefix='fulgurite-recipes-') as folder:
        cached = ['ccache'] if shutil.which('ccache') else []
        shop = Workshop(pathlib.Path(folder).resolve(), ' '.join(cached + [shutil.which(how[0][0])]))
        shop.cuda_libtorch()
        every = {name: found.get(name, []) for name in PLACES}
        jobs = [(f'recipe {name}: trains, started from another folder', trains, name, every[name]) for name in every]
        every['CMake, installed'] = found_by_cmake(found)
        jobs += [(f'recipe {name}: loadable CUDA libraries are kept', keeps_cuda, name, every[name])
                 for name in every if 'compiled' not in name]  # these link as the others do

        def work(job):
            title, check, name, blocks = job
            missing = [tool for tool in TOOLS.get(name, []) if shutil.which(tool) is None]
            if missing:
                return f'{title} # SKIP {missing[0]} is not installed', []
            return title, check(shop, name, blocks) if blocks else [f'{PAGE} has no recipe "{name}"']

        results = flags.each(work, jobs)
        title = 'the command line: fulgurite::cli of CMake, fulgurite-cli of pkg-config'
        missing = [tool for tool in ('cmake', 'pkg-config') if shutil.which(tool) is None]
        if not missing and shop.run(['g++', '-std=c++20', '-fsyntax-only', '-include', 'CLI/CLI.hpp', '-include',
                                     'toml++/toml.h', '-xc++', '/dev/null'], shop.folder).returncode != 0:
            missing = ['CLI11 or toml++']
        results.append((f'{title} # SKIP {missing[0]} is not installed', []) if missing
                       else (title, command_line(shop, found)))
        if shutil.which('cmake'):
            results.append(('recipe CMake: Release where no build type was asked for', release_by_default(shop)))
    results.append((f'{PAGE} has no recipe that is not tested', [name for name in found if name not in PLACES]))
    results.append(('CMake and Meson agree on the version', versions()))
    flags.tap(results)


main()
