# SPDX-License-Identifier: Apache-2.0
"""What is compiled is the function that there is: not what a decorator has replaced, nor what its
file has become since."""

import importlib.util
import os
import textwrap

import pytest

import denizen

HEAD = """
    import functools
    import numpy as np
    import denizen

    @denizen.message
    class Tick:
        n: np.uint32

    def tenfold(f):
        @functools.wraps(f)
        def g(x):
            return 10 * f(x)
        return g

    def small(f):
        @functools.wraps(f)
        def on(self, m, ctx):
            if m.n > 100:
                ctx.reply(Tick(0))
            else:
                f(self, m, ctx)
        return on
"""
COUNTER = """
    def of(x):
        return x

    @denizen.actor
    class Counter:
        sum: np.uint32

        def on_tick(self, m: Tick, ctx):
            self.sum += of(m.n)
            ctx.reply(Tick(self.sum))
"""


@pytest.fixture(params=["python", "cpu:1"])
def load(request, tmp_path):
    """Makes a module of a text, and asks its Counter."""
    if request.param != "python":
        pytest.importorskip("numba")
    file = tmp_path / "program.py"

    class Loaded:
        def __init__(self, text):
            self.write(text)
            spec = importlib.util.spec_from_file_location("program", file)
            self.module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.module)

        def write(self, text):
            then = file.stat().st_mtime if file.exists() else 0
            file.write_text(textwrap.dedent(HEAD) + textwrap.dedent(text))
            os.utime(file, (then + 10, then + 10))

        def program(self):
            return denizen.Program(actors=[self.module.Counter])

        def ask(self, *numbers, program=None):
            with denizen.Runtime(program or self.program(), request.param) as rt:
                (counter,) = rt.spawn("Counter")
                tick = self.module.Tick
                return [int(rt.ask(counter, tick(n), timeout=20)["n"]) for n in numbers]

    return Loaded


def test_a_function_that_a_decorator_has_wrapped(load):
    loaded = load(COUNTER.replace("def of(x)", "@tenfold\n    def of(x)"))
    assert loaded.ask(5, 2) == [50, 70]


def test_a_function_that_was_in_a_program_before_it_was_wrapped(load):
    loaded = load(COUNTER)
    assert loaded.ask(5) == [5]
    loaded.module.of = loaded.module.tenfold(loaded.module.of)
    assert loaded.ask(5) == [50]


def test_a_handler_that_a_decorator_has_wrapped(load):
    text = """
    @denizen.actor
    class Counter:
        sum: np.uint32

        @small
        def on_tick(self, m: Tick, ctx):
            self.sum += m.n
            ctx.reply(Tick(self.sum))
    """
    assert load(text).ask(5, 200, 2) == [5, 0, 7]


def test_a_handler_stays_what_it_was_when_its_file_changes(load):
    loaded = load(COUNTER)
    loaded.write(COUNTER.replace("+= of", "+= 1000 * of"))
    assert loaded.ask(5) == [5]


def test_a_function_whose_file_has_changed_before_a_program_was_made_of_it(load):
    loaded = load(COUNTER)
    loaded.write("def other(x):\n    return 1\n\n" + textwrap.dedent(COUNTER))
    with pytest.raises(denizen.CompileError, match="changed since of was loaded; load it anew"):
        loaded.ask(5)


def test_a_program_goes_on_with_the_functions_that_it_was_made_of(load):
    loaded = load(COUNTER)
    program = loaded.program()
    loaded.write(COUNTER.replace("return x", "return 7"))
    assert loaded.ask(5, program=program) == [5]


def test_a_function_that_got_new_code(load):
    """As IPython's %autoreload gives it to one of a file that has changed."""
    loaded = load(COUNTER)
    assert loaded.ask(5) == [5]
    loaded.write(COUNTER.replace("return x", "return 7"))
    old, path = loaded.module.of, loaded.module.__file__
    names = {**vars(loaded.module)}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), names)
    old.__code__ = names["of"].__code__
    assert loaded.ask(5) == [7]


def test_a_type_that_is_patched_in_place_is_not_left_as_it_was(load):
    """%autoreload would set a handler where nobody looks for it; refused, it loads the module."""
    loaded = load(COUNTER)
    counter, tick = loaded.module.Counter, loaded.module.Tick
    for made, name in ((counter, "on_tick"), (counter, "deadline"), (tick, "n")):
        with pytest.raises(AttributeError, match=f"{name} and gets none; decorate a new class"):
            setattr(made, name, lambda self, m, ctx: None)
    assert loaded.ask(5) == [5]


def test_a_lambda_among_other_things(load):
    text = 'of = {"a":\n        lambda x: x}["a"]'
    loaded = load(COUNTER.replace("def of(x):\n        return x", text))
    with pytest.raises(denizen.CompileError, match="cannot use a lambda; define a function"):
        loaded.ask(5)
