# SPDX-License-Identifier: Apache-2.0
"""The commands of `python -m baracuda.serve`, which `python -m baracuda.demo` has, too."""

import io

import pytest

from baracuda.demo import __main__ as demo
from baracuda.serve import __main__ as server

GREEDY = ("--temperature", "0", "--max-tokens", "6")


def output(main, capsys, library, *given):
    status = main([*given, "--backend", library.backend])
    return status, capsys.readouterr()


@pytest.mark.parametrize("main", [server.main, demo.main], ids=["serve", "demo"])
def test_generate_continues_the_text(main, tiny, library, capsys):
    status, said = output(main, capsys, library, "generate", str(tiny[0]), "hello", *GREEDY)
    assert status == 0
    assert said.out.startswith("hello") and len(said.out) > len("hello\n")
    assert "6 generated" in said.err


def test_both_entries_say_the_same(tiny, library, capsys):
    given = ("generate", str(tiny[0]), "hello", *GREEDY)
    assert output(server.main, capsys, library, *given)[1].out == output(demo.main, capsys, library, *given)[1].out


def test_chat_ends_with_the_input(tiny, library, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\nagain\n"))
    status, said = output(demo.main, capsys, library, "chat", str(tiny[0]), *GREEDY)
    assert status == 0
    assert said.err.count("of prompt in") == 2


@pytest.mark.parametrize("command", ["generate", "chat"])
def test_a_missing_file_is_an_error(command, library, capsys, tmp_path):
    given = [command, str(tmp_path / "none.gguf"), *(["x"] if command == "generate" else [])]
    status, said = output(demo.main, capsys, library, *given)
    assert status == 1
    assert "error: " in said.err and "none.gguf" in said.err
