# SPDX-License-Identifier: Apache-2.0
"""tools/words.py: which words it finds, and where."""

import textwrap

import words


def found(path: str, text: str) -> list[tuple[int, str]]:
    return [(line, word) for line, word, _ in words.check(path, textwrap.dedent(text))]


def test_cpp():
    text = """\
        // A block waits for all SMs.
        /* Rows are
           turned. */
        int thinRows = kTurnCount;  // loads under
        const char* text = "turned // thin";
        // written in place, a cache line at a time; one line
        int in_place = 0, cache_line = prefetch_line(kLineBytes), in_turn = partial, here = __LINE__;
        """
    assert found("native/core/a.cuh", text) == [(3, "turned"), (4, "thin"), (4, "turn"), (6, "line")]


def test_phrases_go_over_spaces():
    assert found("native/core/a.h", "// loads under\tway\n") == [(1, "under way")]
    assert found("native/core/a.h", "int warp_group;  // warp  groups\n") == [(1, "warp group"), (1, "warp groups")]


def test_python():
    text = '''\
        """Rows that are joined.

        Two strips.
        """
        name = " ".join(text.strip().split())  # a line of text
        def f(places):
            "Standing still."
            return "turned"
        '''
    assert found("tools/a.py", text) == [(1, "joined"), (3, "strips"), (6, "places"), (7, "standing still")]


def test_tables():
    text = """\
        # turned
        [op]
        params = in T turned[rows]
        doc = A piece
          of a line.
        workspace = a place
        call = f(turned)
        """
    assert found("native/a/a.abi", text) == [(1, "turned"), (4, "piece"), (5, "line"), (6, "place")]


def test_a_word_with_a_meaning_in_a_folder():
    assert found("native/core/copy/a.h", "int band;\n") == []
    assert found("native/core/row/a.h", "int band;\n") == [(1, "band")]


def test_fragments():
    lines = ("// Of a row.", "int a;  // of a row", "// Rows of a tile,", "// As many as fit.")
    assert found("native/core/a.h", "\n".join(lines)) == [(1, "Of")]
    lines = ('"""What a module does."""', "# How it does this.", "def f():", '    """The same."""')
    assert found("tools/a.py", "\n".join(lines)) == [(1, "What"), (2, "How"), (4, "The same")]
    table = "doc = As b.\nworkspace = as for b\nabout = All but b.\n"
    assert found("native/a/a.abi", table) == [(1, "As"), (3, "All but")]


def test_output(capsys, monkeypatch, tmp_path):
    (tmp_path / "native" / "x").mkdir(parents=True)
    (tmp_path / "native" / "x" / "a.h").write_text("int turn;\n")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert words.main(["native/x/a.h"]) == 1
    assert capsys.readouterr().out.startswith("native/x/a.h:1: turn -> transpose, permute")
    (tmp_path / "native" / "x" / "a.h").write_text("int phase;\n")
    assert words.main(["native/x/a.h"]) == 0
    assert not capsys.readouterr().out
