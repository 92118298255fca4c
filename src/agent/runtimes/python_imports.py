"""What happens when code imports: packages loaded ahead, pyplot made to show, a small IPython."""
import gc
import importlib
import importlib.machinery
import os
import sys


def reseed_random(entropy):
    if "random" in sys.modules:
        sys.modules["random"].seed(int.from_bytes(entropy, "little"))
    if "tempfile" in sys.modules:
        sys.modules["tempfile"]._name_sequence = None


def reseed_numpy(entropy):
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(list(entropy))


def reseed_ssl(entropy):
    if "ssl" in sys.modules:
        sys.modules["ssl"].RAND_add(entropy, len(entropy))


def reseed(entropy):
    """Whatever is in sight."""
    reseed_random(entropy)
    reseed_numpy(entropy)
    reseed_ssl(entropy)


def is_foreign(name):
    return name.partition(".")[0] not in sys.stdlib_module_names


class Preloaded:
    """
    Modules that were imported ahead and are in nobody's sight: absent from sys.modules until the
    first import of one of them, which then costs next to nothing. That is also the moment when
    they get random numbers of their own, so that a start need not wait for it.
    """

    def __init__(self, names, reseed):
        self.modules = {name: (module, module.__spec__) for name in names
                        if getattr(module := sys.modules[name], "__spec__", None)}
        for name in self.modules:
            del sys.modules[name]
        self.shown = set()
        self.reseed = reseed
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        """
        Several threads may come here at once, for several modules. A module that another thread puts
        in sight meanwhile is loaded by the spec that it has then: so that has to be ours.
        """
        module, _ = self.modules.get(name, (None, None))
        if module is None or (name in self.shown and sys.modules.get(name) is not module):
            return None
        is_first = not self.shown
        if is_first:
            others = {other: known[0] for other, known in list(self.modules.items()) if other != name}
            sys.modules.update(others)
            self.shown = self.shown | others.keys()
        module.__spec__ = importlib.machinery.ModuleSpec(name, self, loader_state=is_first)
        return module.__spec__

    def create_module(self, spec):
        return self.modules[spec.name][0]

    def exec_module(self, module):
        is_first = module.__spec__.loader_state
        module.__spec__ = self.modules.pop(module.__spec__.name)[1]
        module.__loader__ = module.__spec__.loader
        if is_first:
            self.reseed(os.urandom(64))


class Pyplot:
    """Makes pyplot.show give results, from the moment when pyplot is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            self.execute = spec.loader.exec_module
            spec.loader.exec_module = self.exec_module
        return spec

    def exec_module(self, module):
        def show(*args, **options):
            driver.part("display").show_figures()

        self.execute(module)
        module.show = show


class Notebook:
    """What code uses of IPython where there is no IPython: asked when nobody else has it."""

    PACKAGES = ("IPython", "matplotlib_inline")
    MODULES = ("IPython.display", "matplotlib_inline.backend_inline")

    def find_spec(self, name, path=None, target=None):
        if name not in self.PACKAGES + self.MODULES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name in self.PACKAGES)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__ == "IPython":
            # Libraries that find IPython ask this, and take None for a plain interpreter.
            module.get_ipython = lambda: None
            module.display = importlib.import_module("IPython.display")
        elif module.__name__ in self.MODULES:
            driver.load_part("ipython", module)


def install():
    sys.meta_path.insert(0, Pyplot())
    sys.meta_path.append(Notebook())


def load_matplotlib():
    """
    matplotlib writes its help texts while it is imported, and looks up what each property takes once
    for each class that inherits it. Remembering that saves an eighth of the time for all packages.
    """
    from matplotlib.artist import ArtistInspector
    look_up = ArtistInspector.get_valid_values
    known = {}

    def get_valid_values(self, name):
        setter = getattr(self.o, "set_" + name)
        if not setter.__doc__:
            return look_up(self, name)
        key = setter, setter.__doc__
        if key not in known:
            known[key] = look_up(self, name)
        return known[key]

    ArtistInspector.get_valid_values = get_valid_values
    try:
        import matplotlib.pyplot
    finally:
        ArtistInspector.get_valid_values = look_up


def load_pandas():
    import numpy
    import pandas


def load_asyncio():
    import asyncio


def load(*loads):
    """The names of what is new then."""
    before = set(sys.modules)
    gc.disable()
    for each in loads:
        try:
            each()
        except ImportError:
            pass
    # Looking through all of that for garbage would take as long as an eighth of the imports.
    gc.freeze()
    gc.enable()
    return set(sys.modules) - before


def reseed_foreign(entropy):
    """They use what comes with Python without importing it any more."""
    import random
    reseed_numpy(entropy)


def preload():
    """
    In three groups: packages, what they need of Python itself, and what asyncio needs besides. Our
    own parts are loaded by now, and what they import stays in sight.
    """
    names = load(load_matplotlib, load_pandas)
    foreign = set(filter(is_foreign, names))
    more = load(load_asyncio)
    Preloaded(more, reseed_ssl)
    Preloaded(names - foreign, reseed_random)
    Preloaded(foreign, reseed_foreign)
