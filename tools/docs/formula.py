# SPDX-License-Identifier: Apache-2.0
"""Formulas of the op tables, which are plain text, as MathML.

MathML is laid out by the browser: a page needs no script, no font and no network for it. A sentence such as
"x for x > 0, else p0 (e^x - 1)" is split into words and formulas. Words stay text, with code for names of functions;
each formula is parsed by the usual precedence: ^, then products and quotients from left to right, then sums and
relations. A quotient takes the whole product on its left and one factor on its right: dy / (2 y), -y^3 dy / 2.
"""

from __future__ import annotations

import dataclasses
import html
import re

TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<word>[A-Za-z]+(?:-[A-Za-z]{2,})+|[A-Za-z]{2,}'s|[A-Z]'s|\d+-bit)"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:\{[TUIO]\})*'?)"
    r"|(?P<bitwise>(?<=\s)[|^](?=\s))"
    r"|(?P<sign>-\+|\+-|\+=|<=|>=|==|!=|<<|>>|[-+*/%^|=<>&~()\[\],])"
    r"|(?P<other>.)"
)
BITWISE = {"|": "bits|", "^": "bits^"}  # C's operators, between spaces
GREEK = {
    "alpha": "\N{GREEK SMALL LETTER ALPHA}",
    "beta": "β",
    "lambda": "λ",
    "pi": "π",
    "phi": "φ",
    "Phi": "Φ",
    "Gamma": "Γ",
    "inf": "∞",
}
SIGNS = {
    "-": "\N{MINUS SIGN}", "*": "⋅", "<=": "≤", ">=": "≥", "!=": "≠", "==": "=", "<<": "≪", ">>": "≫", "-+": "∓",
    "+-": "±", "bits|": "|", "bits^": "^",
}  # fmt: skip
RELATIONS = {
    "+",
    "-",
    "+-",
    "-+",
    "=",
    "==",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "%",
    "&",
    "<<",
    ">>",
    "+=",
    ",",
    *BITWISE.values(),
}
BINDING = {"+", "*", "/", "^", "=", "==", "<=", ">=", "<", ">", "+="}  # a word next to one of them is a name
ALWAYS = {"ln", "scale", "width", "sqrt"}
# Words next to operators or variables that are not names.
PLAIN = {
    "for", "if", "where", "and", "or", "to", "towards", "else", "over", "of", "in", "is", "are", "may", "be", "at",
    "the", "with", "from", "gives", "give", "than", "before", "beside", "as", "NaN", "equals", "count", "means", "one",
    "each", "not", "only", "changed", "it", "so", "then", "sum", "sums", "when", "stays", "has", "do",
}  # fmt: skip
# Words that follow the variable a; before other words "a" is the article.
AFTER_VARIABLE = PLAIN - {"sum", "one", "count"}


@dataclasses.dataclass
class Token:
    kind: str
    text: str


def tokens_of(text: str) -> list[Token]:
    """A parenthesis that follows a name directly is a "call": f(x), but not alpha (x + 1)."""
    tokens: list[Token] = []
    for m in TOKEN.finditer(text):
        if m.lastgroup == "bitwise":
            tokens.append(Token("sign", BITWISE[m[0]]))
        else:
            is_call = m[0] == "(" and bool(tokens) and tokens[-1].kind == "name"
            tokens.append(Token("call" if is_call else str(m.lastgroup), m[0]))
    return tokens


def typeset(text: str) -> str:
    """HTML of a sentence with its mathematics as MathML."""
    tokens = tokens_of(text)
    is_math = classified(tokens)
    parts, at = [], 0
    while at < len(tokens):
        end = at
        while end < len(tokens) and is_math[end] == is_math[at]:
            end += 1
        span = tokens[at:end]
        parts.append(run(span) if is_math[at] else prose(span))
        at = end
    return "".join(parts)


def classified(tokens: list[Token]) -> list[bool]:
    """Flags of the tokens that are mathematics."""
    is_math = [_is_math(tokens, i) for i in range(len(tokens))]
    depth = 0
    for i, token in enumerate(tokens):  # commas within the parentheses of a function or an interval
        if is_math[i] and token.text in "([":
            depth += 1
        elif is_math[i] and token.text in ")]":
            depth -= 1
        elif not is_math[i] and token.kind not in ("sign", "call", "space"):
            depth = 0
        if token.text == ",":
            is_math[i] = depth > 0 and _stays_open(tokens, is_math, i)
    for i, token in enumerate(tokens):  # spaces belong to what is on both sides
        if token.kind == "space":
            is_math[i] = 0 < i < len(tokens) - 1 and is_math[i - 1] and is_math[i + 1]
    return is_math


def _stays_open(tokens: list[Token], is_math: list[bool], at: int) -> bool:
    """Whether a parenthesis closes behind a comma with no word between."""
    depth = 1
    for token, math in zip(tokens[at + 1 :], is_math[at + 1 :]):
        if token.kind in ("space",) or token.text == ",":
            continue
        if not math:
            return False
        depth += (token.text in "([") - (token.text in ")]")
        if depth == 0:
            return True
    return False


def _is_math(tokens: list[Token], i: int) -> bool:
    token = tokens[i]
    if token.kind in ("number", "sign", "call"):
        return token.text != ","
    if token.kind != "name":
        return False
    before, after = _neighbour(tokens, i, -1), _neighbour(tokens, i, 1)
    tight = tokens[i + 1].text if i + 1 < len(tokens) else ""
    if token.text == "a":  # the variable, or the article
        words = after and after.kind in ("name", "word") and len(after.text) > 2 and after.text not in AFTER_VARIABLE
        return not words or _is_applied(tokens, i)
    if token.text == "mod":
        return bool(before and before.kind == "name" and _in_brackets(tokens, i))
    if token.text in PLAIN:
        return False
    if len(token.text) == 1:
        return token.text not in "ICAE"
    if re.fullmatch(r"d[a-z]|[pt]\d+", token.text) or token.text in GREEK or token.text in ALWAYS:
        return True
    if tight in ("(", "["):
        return True
    if _in_brackets(tokens, i):
        return True
    return any(t is not None and t.kind == "sign" and t.text in BINDING for t in (before, after))


def _is_applied(tokens: list[Token], i: int) -> bool:
    """Whether the next name is a function with its argument."""
    return [token.kind for token in tokens[i + 1 : i + 3]] == ["space", "name"] and (
        i + 3 < len(tokens) and tokens[i + 3].text == "("
    )


def _neighbour(tokens: list[Token], i: int, step: int) -> Token | None:
    i += step
    while 0 <= i < len(tokens) and tokens[i].kind == "space":
        i += step
    return tokens[i] if 0 <= i < len(tokens) else None


def _in_brackets(tokens: list[Token], i: int) -> bool:
    """Whether it is part of the index of an array: input[i], weight[indices[k]]."""
    depth = 0
    for k in range(i - 1, -1, -1):
        if tokens[k].text == "]":
            depth += 1
        elif tokens[k].text == "[":
            if depth == 0:
                return k > 0 and tokens[k - 1].kind == "name"
            depth -= 1
    return False


def prose(tokens: list[Token]) -> str:
    return "".join(f"<code>{t.text}</code>" if t.kind == "name" and "_" in t.text else escape(t.text) for t in tokens)


def escape(text: str) -> str:
    """Text with the marks of HTML and Markdown escaped."""
    return re.sub(r"[^\w\s,.;:'()=+/ -]|_", lambda m: f"&#{ord(m[0])};", text)


def run(tokens: list[Token]) -> str:
    """MathML of a formula; an unmatched parenthesis at its ends stays text."""
    start, end = 0, len(tokens)
    while start < end and (tokens[start].text in (")", "]", "/") or (_unclosed(tokens[start:end]))):
        start += 1
    while end > start and (tokens[end - 1].text in ("(", "[", "/", " ") or _unopened(tokens[start:end])):
        end -= 1
    middle = [t for t in tokens[start:end] if t.kind != "space"]
    before, after = prose(tokens[:start]), prose(tokens[end:])
    if not any(t.kind in ("name", "number") for t in middle) or (len(middle) == 1 and middle[0].kind == "number"):
        return prose(tokens)
    return f"{before}<math>{Parser(middle).sentence()}</math>{after}"


def _unclosed(tokens: list[Token]) -> bool:
    """Whether the first token is an unclosed parenthesis."""
    if tokens[0].text not in "([":
        return False
    depth = 0
    for token in tokens:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0:
            return False
    return True


def _unopened(tokens: list[Token]) -> bool:
    return _unclosed([Token(t.kind, t.text.translate(str.maketrans("()[]", ")(]["))) for t in reversed(tokens)])


@dataclasses.dataclass
class Node:
    """MathML of an operand; `bare`: without its parentheses, for fractions and exponents."""

    text: str
    inside: str = ""
    is_name: bool = False

    @property
    def bare(self) -> str:
        return self.inside or self.text


class Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.at = tokens, 0

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def take(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def sentence(self) -> str:
        parts = []
        while self.at < len(self.tokens):
            parts.append(self.sum())
            if self.at < len(self.tokens):  # the matching parenthesis is in another formula
                parts.append(sign(self.take().text, tall=False))
        return "".join(parts)

    def sum(self, closing: str = "") -> str:
        """Products between signs, up to a closing parenthesis."""
        parts: list[str] = []
        while self.at < len(self.tokens):
            text = self.peek()
            if text in RELATIONS and text != closing:
                parts.append(sign(self.take().text))
            elif text and text not in ")]" and text != closing:
                parts.append(self.product())
            else:
                break
        return "".join(parts)

    def product(self) -> str:
        factors: list[Node] = []
        while self.at < len(self.tokens):
            text = self.peek()
            if text in RELATIONS or text in ")]" or (text == "|" and self.in_bars):
                break
            if text == "/":
                self.take()
                if not factors or self.at == len(self.tokens):
                    factors.append(Node(sign("/")))
                    continue
                below = self.power()
                above = factors[0].bare if len(factors) == 1 else side_by_side(factors)
                factors = [Node(f"<mfrac><mrow>{above}</mrow><mrow>{below.bare}</mrow></mfrac>")]
            elif text == "*":
                self.take()
                factors.append(Node(sign("*")))
            elif text == "mod":
                self.take()
                factors.append(Node('<mspace width="0.3em"/><mi>mod</mi><mspace width="0.3em"/>'))
            else:
                factors.append(self.power())
        return side_by_side(factors)

    in_bars = False

    def power(self) -> Node:
        base = self.atom()
        while self.peek() == "^" and self.at + 1 < len(self.tokens):
            self.take()
            minus = sign(self.take().text) if self.peek() == "-" else ""
            exponent = self.atom()
            base = Node(f"<msup><mrow>{base.text}</mrow><mrow>{minus}{exponent.bare}</mrow></msup>")
        return base

    def atom(self) -> Node:
        if self.at == len(self.tokens):
            return Node("")
        token = self.take()
        if token.kind == "number":
            return Node(f"<mn>{token.text}</mn>")
        if token.text == "~":
            return Node(sign("~") + self.power().text)
        if token.text == "|":
            outer, self.in_bars = self.in_bars, True
            inside = self.sum("|")
            self.in_bars = outer
            if self.peek() == "|":
                self.take()
            return Node(f"<mrow>{bar()}{inside}{bar()}</mrow>")
        if token.text in "([":
            outer, self.in_bars = self.in_bars, False
            inside = self.sum()
            self.in_bars = outer
            tall = any(f"<{tag}" in inside for tag in ("mfrac", "msqrt"))
            closing = sign(self.take().text, tall) if self.peek() in (")", "]") else ""
            opening = sign(token.text, tall)
            if not closing:  # its end is in another formula
                return Node(opening + inside)
            return Node(f"<mrow>{opening}{inside}{closing}</mrow>", inside if token.text == "(" else "")
        if token.kind != "name":
            return Node(sign(token.text))
        return self.applied(token)

    def applied(self, token: Token) -> Node:
        if token.text == "sqrt" and self.peek() == "(":
            return Node(f"<msqrt><mrow>{self.atom().bare}</mrow></msqrt>")
        text = name(token.text)
        if self.peek() == "[":
            return Node(f"<mrow>{text}{self.atom().text}</mrow>")
        if self.at < len(self.tokens) and self.tokens[self.at].kind == "call":
            return Node(f"<mrow>{text}<mo>&#8289;</mo>{self.atom().text}</mrow>")
        return Node(text, is_name=True)


def side_by_side(factors: list[Node]) -> str:
    """A product: adjacent names and numbers are separated by a space."""
    parts: list[str] = []
    for i, factor in enumerate(factors):
        if i and not factor.text.startswith("<mo") and not factors[i - 1].text.startswith("<mo"):
            parts.append('<mspace width="0.2em"/>')
        parts.append(factor.text)
    return "".join(parts)


LOW = ' stretchy="false"'


def sign(text: str, tall: bool = True) -> str:
    """An operator or a parenthesis, not stretched unless `tall`: browsers stretch too readily."""
    return f"<mo{'' if tall else LOW}>{escape_sign(SIGNS.get(text, text))}</mo>"


def escape_sign(text: str) -> str:
    return "".join(f"&#{ord(c)};" for c in text)


def bar() -> str:
    return sign("|", tall=False)


def name(text: str) -> str:
    if text in GREEK:
        return f"<mi>{GREEK[text]}</mi>"
    if m := re.fullmatch(r"([pt])(\d+)", text):
        return f"<msub><mi>{m[1]}</mi><mn>{m[2]}</mn></msub>"
    if re.fullmatch(r"d[a-z]", text):
        return f"<mrow><mi>d</mi><mi>{text[1]}</mi></mrow>"
    return f"<mi>{html.escape(text, quote=False).replace('_', '&#95;')}</mi>"
