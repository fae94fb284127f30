# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""Finds the functions of a C++ text by matching braces.

Good enough for code that clang-format has laid out, and no parser. It does not see functions whose
braces come from a macro's body, and it reads both branches of an #if: braces that only together are
balanced shift what follows. A lambda counts as part of the function around it; one at namespace
scope, and a TEST(...) body, count as functions.
"""

import re

import source_tree

_CONTAINER = re.compile(r"\b(?:namespace|class|struct|union|enum)\b|\bextern\s*\"")
_QUALIFIER = r"(?:const|noexcept|override|final|mutable|volatile|try|&&?|requires)"
_SIGNATURE = re.compile(
    r"\)\s*(?:" + _QUALIFIER + r"\b|->|:(?!:)|\[\[|noexcept\s*\(|AMEM_|\Z|[&{])"
)
_NAME = re.compile(
    r"((?:[\w~]+(?:<[^<>]*>)?::)*(?:operator\s*(?:\(\)|[^\s\w(]+)|[~\w]+))\s*\("
)
_INITIALIZERS = re.compile(r"\)\s*(?:noexcept\s*(?:\([^)]*\))?\s*)?:(?!:)")
_LABELS = re.compile(r"(?:\s*(?:public|private|protected)\s*:(?!:))*\s*")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)


def _bare(text):
    """Code without comments, literals and preprocessor lines; positions stay."""
    code = source_tree.code_only(text)
    return _DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def _closing(code, opening):
    """The position of the brace that closes the one at `opening`, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def _is_initializer(head):
    """True when the brace after `head` begins a value: `= {`, or `: member_{` of a constructor."""
    head = head.rstrip()
    if head.endswith(("=", "(", ",", "return")):
        return True
    if not _INITIALIZERS.search(head):
        return False
    return re.search(r"[\w>]$", head) is not None and head.rfind(")") < max(
        head.rfind(","), head.rfind(":")
    )


def _name(head):
    """`Session::pause` of `Status Session::pause(int a) const`; the test's two names for TEST."""
    test = re.match(r"\s*(?:TYPED_)?TEST(?:_[FP])?\s*\(\s*(\w+)\s*,\s*(\w+)", head)
    if test:
        return f"{test[1]}.{test[2]}"
    match = _NAME.search(head)
    return match[1] if match else head.split("(")[0].split()[-1]


def functions(text):
    """(name, first line, last line) of each function body, outermost ones only."""
    code, found = _bare(text), []
    at = start = 0
    while True:
        match = re.compile(r"[{};]").search(code, at)
        if match is None:
            return found
        head = code[start : match.start()]
        at = match.end()
        if match[0] != "{":
            # A `;` inside parentheses belongs to a head that goes on.
            if head.count("(") <= head.count(")"):
                start = at
        elif _is_initializer(head):
            at = _closing(code, match.start()) + 1
        elif "(" in head and _SIGNATURE.search(head + "{") and not _is_container(head):
            end = _closing(code, match.start())
            first = start + _LABELS.match(head).end()
            found.append(
                (_name(head), source_tree.line_of(code, first), source_tree.line_of(code, end))
            )
            at = start = end + 1
        elif _is_container(head):
            start = at
        else:
            # `Mutex mutex_{...}` and the like: a value, skipped whole.
            at = _closing(code, match.start()) + 1


def _is_container(head):
    """True for `namespace x`, `class X : public Y`, `extern "C"`; not for `struct X f(int)`."""
    match = _CONTAINER.search(re.sub(r"<[^<>]*>", "", head))
    if match is None:
        return False
    if "extern" in match[0] or match[0] == "namespace":
        return re.search(r"\)\s*\Z", head.rstrip()) is None
    return re.search(r"\w\s*\([^()]*\)\s*(?:const|noexcept|override|\s)*\Z", head) is None
